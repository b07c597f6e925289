/* See bend.h. */
#include "bend.h"

static double foretold_flat(const double *y, size_t count) { return count < 2 ? -1 : y[(count - 1) / 2]; }

static double foretold_on_line(const double *x, const double *y, size_t count)
{
    size_t b = count - 2, a = b - 1;

    if (count < 3 || y[a] < 0 || y[b] < 0 || x[b] <= x[a])
        return -1;
    return y[b] + (y[b] - y[a]) / (x[b] - x[a]) * (x[count - 1] - x[b]);
}

double bend_of(const double *x, const double *y, size_t count, bool is_flat)
{
    double foretold = is_flat ? foretold_flat(y, count) : foretold_on_line(x, y, count);

    return foretold > 0 && y[count - 1] >= 0 ? y[count - 1] / foretold : -1;
}
