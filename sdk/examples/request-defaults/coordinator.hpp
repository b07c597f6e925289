// What makes the coordinator's C API feel at home in C++17: owners that free what they own, and a wall that no exception crosses.
#ifndef REQUEST_DEFAULTS_COORDINATOR_HPP
#define REQUEST_DEFAULTS_COORDINATOR_HPP

#include <coordinator/document.h>
#include <coordinator/plugin.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>

namespace coordinator
{

inline coord_slice slice(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(coord_slice text) { return {text.data, text.size}; }

struct FreeDocument {
    void operator()(coord_document *document) const { coord_document_free(document); }
};
// A document that is ours: freed with its owner, moved and not copied.
using Document = std::unique_ptr<coord_document, FreeDocument>;

// Null when `text` is not JSON.
inline Document parse(std::string_view text)
{
    return Document(coord_document_parse_new(slice(text), nullptr, nullptr));
}

// The JSON Pointer (RFC 6901) of a member of the document's outermost object.
inline std::string pointer_to(std::string_view member)
{
    std::string pointer = "/";

    for (char c : member) {
        if (c == '~')
            pointer += "~0";
        else if (c == '/')
            pointer += "~1";
        else
            pointer += c;
    }
    return pointer;
}

// Runs `body` and turns what it throws into `otherwise(text)`: no exception may cross into the core (coordinator/base.h).
template <typename Body, typename Otherwise> coord_status guarded(Body body, Otherwise otherwise) noexcept
{
    try {
        return body();
    } catch (const std::exception &thrown) {
        return otherwise(thrown.what());
    } catch (...) {
        return otherwise("an exception of unknown type");
    }
}

} // namespace coordinator

#endif
