import assert from "node:assert/strict";
import { createDummyInterface } from "../../../../backends/ipvs/dummy_interface.ts";

/** A dummy interface whose batches end with these messages of ip 6.1. */
function dummyAfter(stderr: string) {
  return createDummyInterface("IPv4", { run: () => Promise.resolve({ exitCode: 1, stdout: "", stderr }) });
}

const CHANGES = ["10.96.0.1", "10.96.0.2", "10.96.0.3"].map((address) => ({ does: "add", address }) as const);
const EXISTS = "RTNETLINK answers: File exists\nCommand failed -:1\n";

Deno.test("each refused address has its own message; one that is already there is not refused", async () => {
  const dummy = dummyAfter(
    `${EXISTS}RTNETLINK answers: No buffer space available\nCommand failed -:3\n`,
  );
  assert.deepEqual([...await dummy.apply(CHANGES)], [["10.96.0.3", "RTNETLINK answers: No buffer space available"]]);
  const two = dummyAfter("Error: one.\nCommand failed -:2\nError: other.\nCommand failed -:3\n");
  assert.deepEqual([...await two.apply(CHANGES)], [["10.96.0.2", "Error: one."], ["10.96.0.3", "Error: other."]]);
});

Deno.test("addresses that are all there already are no failure; a failure of no address is an error", async () => {
  assert.deepEqual([...await dummyAfter(EXISTS).apply(CHANGES)], []);
  await assert.rejects(
    dummyAfter("Cannot open netlink socket: Permission denied\n").apply(CHANGES),
    /Permission denied/,
  );
});
