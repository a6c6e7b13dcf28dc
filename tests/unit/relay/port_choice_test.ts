import assert from "node:assert/strict";
import { createPortChoice } from "../../../relay/listeners.ts";
import { createFakeClock } from "../../fakes/clock.ts";

/** The choice of 40000 to 40003, on a system where some ports are taken. */
function startLab(...others: number[]) {
  const clock = createFakeClock();
  const choice = createPortChoice({ first: 40_000, last: 40_003 }, clock);
  const taken = new Set(others), tried: number[] = [];
  const open = (name: string) =>
    choice(name, (port) => {
      tried.push(port);
      if (taken.has(port)) return Promise.reject(new Error("listen EADDRINUSE: address already in use"));
      taken.add(port);
      return Promise.resolve(port);
    });
  return { clock, choice, taken, tried, open };
}

Deno.test("every port of the range is used, none beside it, and a full range is searched again after some seconds", async () => {
  const { clock, taken, tried, open } = startLab(40_002);
  const ports = await Promise.all(["a", "b", "c"].map(open));
  assert.deepEqual(ports.sort(), [40_000, 40_001, 40_003]);
  await assert.rejects(open("d"), /no port of portRange 40000-40003 is free/);
  taken.delete(40_000);
  const before = tried.length;
  await assert.rejects(open("d"), /no port of portRange/);
  assert.equal(tried.length, before);
  clock.advance(4999);
  await assert.rejects(open("d"), /no port of portRange/);
  assert.equal(tried.length, before);
  clock.advance(1);
  assert.equal(await open("d"), 40_000);
});

Deno.test("a name gets its port again after a restart, in whatever order the names come", async () => {
  const names = ["default/web|tcp cluster", "default/api|tcp cluster"];
  const [before, after] = [startLab(), startLab()];
  const ports = [await before.open(names[0]!), await before.open(names[1]!)];
  assert.notEqual(ports[0], ports[1]);
  assert.deepEqual([await after.open(names[1]!), await after.open(names[0]!)].reverse(), ports);
});

Deno.test("an error other than a taken port ends the search", async () => {
  const { choice } = startLab();
  let attempts = 0;
  const open = () => {
    attempts++;
    return Promise.reject(new Error("EACCES: permission denied"));
  };
  await assert.rejects(choice("a", open), /EACCES/);
  assert.equal(attempts, 1);
});
