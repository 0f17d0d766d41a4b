/* test_grid.c - hosts form grids of few, short dimensions, and are linked along them. */
#include "tap.h"
#include "wire/grid.h"

enum { MOST = 1100 };

/* Every coordinate belongs to one host, and every host has one place. */
static int is_sound(const struct grid *g)
{
	static char taken[MOST];
	int h, d, k, product = 1;

	for (d = 0; d < g->dims; d++) {
		if (g->stride[d] != product || g->radix[d] < 2 || g->radix[d] > GRID_PRIME)
			return 0;
		product *= g->radix[d];
	}
	if (product != g->cells || g->cells > g->hosts || 2 * g->cells < g->hosts)
		return 0;
	for (h = 0; h < g->hosts; h++)
		taken[h] = 0;
	for (h = 0; h < g->hosts; h++) {
		int place = grid_place(g, h);

		if (place < 0 || place >= g->hosts || taken[place]++ ||
		    grid_host(g, place) != h)
			return 0;
		for (d = 0; d < g->dims && h < g->cells; d++)
			for (k = 0; k < g->radix[d]; k++) {
				int other = grid_member(g, h, d, k);

				if (other < 0 || other >= g->cells ||
				    grid_digit(g, other, d) != k ||
				    (other != h && !grid_linked(g, h, other)))
					return 0;
			}
		if (grid_leaner(g, h) >= 0 && (!grid_linked(g, h, grid_leaner(g, h)) ||
					       grid_place(g, grid_leaner(g, h)) != place + 1))
			return 0;
	}
	return 1;
}

static int links(const struct grid *g, int a)
{
	int b, n = 0;

	for (b = 0; b < g->hosts; b++) {
		n += grid_linked(g, a, b);
		if (grid_linked(g, a, b) != grid_linked(g, b, a))
			return -1;
	}
	return n;
}

/* Those with the same first digits lie together. */
static int has_neighbours(const struct grid *g)
{
	int a, b, c, d;

	for (d = 0; d < g->dims; d++)
		for (a = 0; a + 2 < g->cells; a++) {
			int x = grid_host(g, a), y = grid_host(g, a + 1),
			    z = grid_host(g, a + 2);

			if (x >= g->cells || y >= g->cells || z >= g->cells)
				continue;
			for (b = 0, c = 0; b <= d; b++) {
				c |= grid_digit(g, x, b) != grid_digit(g, z, b);
				if (!c && grid_digit(g, x, b) != grid_digit(g, y, b))
					return 0;
			}
		}
	return 1;
}

int main(void)
{
	struct grid g;
	int n, h, good = 1, near = 1, few = 1, dims = 0;

	for (n = 1; n <= 200; n++) {
		grid_init(&g, n);
		good &= is_sound(&g);
		near &= has_neighbours(&g);
		few &= n - g.cells <= n / 10;
	}
	ok(good, "1 to 200 hosts: each has its coordinates and its place");
	ok(near, "who shares digits has a place nearby");
	ok(few, "hardly any host stays outside");
	for (n = 2; n <= GRID_RADIX; n++) {
		grid_init(&g, n);
		dims |= g.dims != 1 || g.radix[0] != n;
	}
	ok(!dims, "up to %d hosts stand in a row", GRID_RADIX);
	grid_init(&g, 64);
	ok(g.dims == 2 && links(&g, 7) == 63, "64: a square, each linked with each");
	grid_init(&g, 1024);
	ok(is_sound(&g) && g.dims == 4, "1024: %d dimensions", g.dims);
	for (h = 0, good = 1; h < 1024; h += 31)
		good &= links(&g, h) > 0 && links(&g, h) <= 22;
	ok(good, "with %d links for each host", links(&g, 0));
	grid_init(&g, 65);
	ok(is_sound(&g) && g.cells == 65, "65: all inside");
	grid_init(&g, 67);
	ok(is_sound(&g) && g.cells == 66 && links(&g, 66) == 1, "67: one leans, on host 0");
	return tap_done();
}
