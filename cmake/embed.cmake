# Writes a C source that holds the files of folders: the templates of `coordinator new-step`.
#     cmake -D FOLDER=FOLDER -D OUT=FILE -P embed.cmake
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*)
set(arrays)
set(rows)
set(number 0)
foreach(file IN LISTS files)
  cmake_path(GET file PARENT_PATH kind)
  cmake_path(GET file FILENAME name)
  file(READ ${FOLDER}/${file} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char file_${number}[] = {\n${bytes}};\n")
  string(APPEND rows "    {\"${kind}\", \"${name}\", file_${number}, sizeof file_${number}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by cmake/embed.cmake. */\n#include \"cli/templates.h\"\n\n${arrays}
const struct template_file template_files[] = {\n${rows}    {NULL, NULL, NULL, 0},\n};\n")
