import assert from "node:assert/strict";
import { createDummyInterface, createHeldAddresses } from "../../../../backends/ipvs/addresses.ts";
import { deliverOutput } from "../../../fakes/runner.ts";

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
  for (const message of ["RTNETLINK answers: File exists", "Error: ipv4: Address already assigned."]) {
    assert.deepEqual([...await dummyAfter(`${message}\nCommand failed -:1\n`).apply(CHANGES)], [], message);
  }
  await assert.rejects(
    dummyAfter("Cannot open netlink socket: Permission denied\n").apply(CHANGES),
    /Permission denied/,
  );
});

Deno.test("a dry run shows the interface and its addresses, also those that go", async () => {
  const shown: unknown[] = [];
  const dummy = createDummyInterface("IPv4", {
    run({ changes }) {
      shown.push(...changes?.() ?? []);
      return Promise.resolve({ exitCode: 0, stdout: "", stderr: "" });
    },
  });
  await dummy.create();
  await dummy.apply([...CHANGES.slice(1), { does: "del", address: "10.96.0.1" }]);
  const place = { kind: "members", place: "interface kube-ipvs0" };
  assert.deepEqual(shown, [
    { ...place, removed: [], added: ["type dummy"] },
    { ...place, removed: ["10.96.0.1/32"], added: ["10.96.0.2/32", "10.96.0.3/32"] },
  ]);
});

Deno.test("a held address that is there already is no failure, also beside one that is refused", async () => {
  const held = (stderr: string) =>
    createHeldAddresses("IPv4", { run: () => Promise.resolve({ exitCode: 1, stdout: "", stderr }) });
  await held(EXISTS).hold(["10.96.0.1"], ["10.0.0.1"]);
  const mixed = held(`${EXISTS}Error: Nexthop has invalid gateway.\nCommand failed -:2\n`);
  await assert.rejects(mixed.hold(["10.96.0.1", "10.96.0.2"], ["10.0.0.1"]), /Nexthop has invalid gateway/);
});

Deno.test("a kernel that has no table of routes yet holds no address, and there is none to release", async () => {
  const held = (stderr: string) =>
    createHeldAddresses("IPv4", { run: () => Promise.resolve({ exitCode: 2, stdout: "", stderr }) });
  const none = held("Error: ipv4: FIB table does not exist.\nFlush terminated\n");
  assert.deepEqual(await none.list(), new Set());
  await none.releaseAll();
  await assert.rejects(held("Cannot open netlink socket: Permission denied\n").releaseAll(), /Permission denied/);
});

Deno.test("the node's addresses are those of all interfaces but the dummy, whichever interfaces there are", async () => {
  // From kube-proxy's TestFilterAddrsExcept (netlink_linux_test.go, 1.37), and addresses that never leave their link.
  const addr = (name: string, prefix: string) =>
    `2: ${name}    inet ${prefix} scope global ${name}\\  valid_lft forever\n`;
  const table = [
    [addr("eth0", "192.168.1.10/24") + addr("kube-ipvs0", "10.233.0.1/32") + addr("kube-ipvs0", "10.233.0.2/32"), {
      dummy: ["10.233.0.1", "10.233.0.2"],
      node: ["192.168.1.10"],
    }],
    [addr("eth0", "192.168.1.10/24") + addr("eth1", "10.0.0.1/24"), { dummy: [], node: ["10.0.0.1", "192.168.1.10"] }],
    [addr("eth0", "") + addr("eth1", "192.168.1.10/24"), { dummy: [], node: ["192.168.1.10"] }],
    [addr("lo", "127.0.0.1/8") + addr("eth0", "fe80::1/64") + addr("eth0", "fd00::1/128"), {
      dummy: [],
      node: ["fd00::1"],
    }],
    ["", { dummy: [], node: [] }],
  ] as const;
  for (const [stdout, expected] of table) {
    const dummy = createDummyInterface("IPv4", {
      run: (call) => Promise.resolve(deliverOutput({ exitCode: 0, stdout, stderr: "" }, call)),
    });
    const { dummy: ours, node } = await dummy.list();
    assert.deepEqual({ dummy: [...ours.keys()], node }, expected);
  }
});
