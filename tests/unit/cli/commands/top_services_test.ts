/** The services on the screen of `sluice top`, which scrolls by lines through pages. */
import assert from "node:assert/strict";
import fc from "fast-check";
import type { ControlAnswers } from "../../../../answers/control/mod.ts";
import type { BrowseQuestion, ServicePage } from "../../../../answers/mod.ts";
import { servicesOf } from "../../../../cli/commands/status.ts";
import { FIRST_VIEW } from "../../../../cli/text/mod.ts";

/** A proxy with this many services, named by their places. */
function proxyWith(total: number): Pick<ControlAnswers, "browse"> {
  const names = Array.from({ length: total }, (_, place) => ({ name: String(place) }));
  return {
    browse({ page, pageSize }: BrowseQuestion) {
      const services = names.slice((page - 1) * pageSize, page * pageSize);
      return Promise.resolve({ total, pages: Math.ceil(total / pageSize), services } as unknown as ServicePage);
    },
  };
}

Deno.test("a screen shows as many services as fit, from the one that the view has scrolled to", () =>
  fc.assert(fc.asyncProperty(fc.nat(40), fc.integer({ min: 1, max: 12 }), fc.nat(40), async (total, rows, offset) => {
    fc.pre(offset <= Math.max(0, total - rows));
    const page = await servicesOf({ ...FIRST_VIEW, offset }, rows, proxyWith(total));
    const expected = Array.from({ length: Math.min(rows, total - offset) }, (_, i) => String(offset + i));
    assert.deepEqual(page!.services.map(({ name }) => name), expected);
  })));

Deno.test("the filter, the order and the attention of the view are asked for, on every page", async () => {
  const asked: BrowseQuestion[] = [], proxy = proxyWith(9);
  const view = { ...FIRST_VIEW, search: "web", attention: true, order: "name", offset: 1 } as const;
  await servicesOf(view, 3, { browse: (question) => (asked.push(question), proxy.browse(question)) });
  assert.deepEqual(
    asked,
    [1, 2].map((page) => (
      { search: "web", attention: true, order: "name", page, pageSize: 3 }
    )),
  );
});

Deno.test("a screen that is one page is asked for once", async () => {
  const asked: number[] = [], proxy = proxyWith(9);
  await servicesOf({ ...FIRST_VIEW, offset: 3 }, 3, {
    browse(question) {
      asked.push(question.page);
      return proxy.browse(question);
    },
  });
  assert.deepEqual(asked, [2]);
});

Deno.test("a proxy that has not read the cluster yet has no services", async () => {
  assert.equal(await servicesOf(FIRST_VIEW, 3, { browse: () => Promise.reject(new Error("not ready")) }), undefined);
});
