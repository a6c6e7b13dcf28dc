import assert from "node:assert/strict";
import {
  createDispatchTree,
  type DispatchEntry,
  type DispatchTree,
  frontendPlace,
  LEAF_CAPACITY,
} from "../../../../backends/iptables/dispatch.ts";

const ruleOf = ({ owner }: DispatchEntry) => {
  const [, address, port] = /^default\/(.*):(\d+)\|tcp$/.exec(owner)!;
  return `-d ${address}/32 -p tcp -m tcp --dport ${port} -j HIT`;
};
const tree = () => createDispatchTree({ entryChain: "ENTRY", namePrefix: "KUBE-SVC-TO-", addressDigits: 8, ruleOf });

function add(to: DispatchTree, address: string, port = 80): void {
  const place = frontendPlace(address, "tcp", port);
  to.add({ place, owner: `default/${address}:${port}|tcp` });
}

/** Every chain with its rules; discards the touched chains. */
function chainsOf(of: DispatchTree): Record<string, readonly string[]> {
  of.takeTouched();
  return Object.fromEntries([...of.chains()].sort().map((chain) => [chain, of.render(chain)!.rules]));
}

Deno.test("few entries are in the entry chain itself", () => {
  const few = tree();
  for (let i = 1; i <= LEAF_CAPACITY; i++) add(few, `10.96.0.${i}`);
  const chains = chainsOf(few);
  assert.deepEqual(Object.keys(chains), ["ENTRY"]);
  assert.equal(chains["ENTRY"]!.length, LEAF_CAPACITY);
});

Deno.test("one entry too many splits the chain into branches by prefix", () => {
  const many = tree();
  for (let i = 0; i <= LEAF_CAPACITY; i++) add(many, `10.96.0.${i}`);
  const chains = chainsOf(many);
  assert.deepEqual(chains["ENTRY"], ["-d 10.96.0.0/24 -j KUBE-SVC-TO-0a6000"]);
  // 33 entries: two chains of 16, and a single entry without a chain.
  assert.deepEqual(chains["KUBE-SVC-TO-0a6000"], [
    "-d 10.96.0.0/28 -j KUBE-SVC-TO-0a60000",
    "-d 10.96.0.16/28 -j KUBE-SVC-TO-0a60001",
    "-d 10.96.0.32/32 -p tcp -m tcp --dport 80 -j HIT",
  ]);
  assert.equal(chains["KUBE-SVC-TO-0a60001"]!.length, 16);
});

Deno.test("many ports of one address branch by protocol and port range", () => {
  const ports = tree();
  for (let port = 0x1000; port < 0x1000 + 2 * LEAF_CAPACITY; port++) add(ports, "192.0.2.1", port);
  const chains = chainsOf(ports);
  const rules = Object.values(chains).flat();
  assert.ok(
    rules.includes("-d 192.0.2.1/32 -p tcp -m tcp --dport 4096:4111 -j KUBE-SVC-TO-c000020101000".slice(0, -1)),
    rules.join("\n"),
  );
  assert.ok(Object.keys(chains).every((chain) => chain.length <= 28));
});

Deno.test("chain names of IPv6 places fit the limit of iptables", () => {
  const six = createDispatchTree({ entryChain: "ENTRY", namePrefix: "KUBE-SVC-TO-", addressDigits: 32, ruleOf });
  for (let i = 0; i <= 4 * LEAF_CAPACITY; i++) add(six, `fd00:10:96::${i.toString(16)}`);
  const chains = chainsOf(six);
  assert.ok(Object.keys(chains).length > 4);
  assert.ok(Object.keys(chains).every((chain) => chain.length <= 28));
  assert.match(chains["ENTRY"]![0]!, /^-d fd00:10:96::\/120 -j KUBE-SVC-TO-[A-Z2-7]{16}$/);
});

Deno.test("an owner has several rules at a place that differ in their destinations", () => {
  const place = frontendPlace("", "tcp", 30080), owner = "default/web|tcp";
  const ports = createDispatchTree({
    entryChain: "ENTRY",
    namePrefix: "KUBE-SVC-NP-",
    addressDigits: 0,
    ruleOf: ({ within }) => `-d ${within} -j HIT`,
  });
  for (const within of ["10.0.0.0/8", "192.168.0.0/16"]) ports.add({ place, owner, within });
  assert.deepEqual(chainsOf(ports), { ENTRY: ["-d 10.0.0.0/8 -j HIT", "-d 192.168.0.0/16 -j HIT"] });
  ports.remove({ place, owner, within: "10.0.0.0/8" });
  assert.deepEqual(chainsOf(ports), { ENTRY: ["-d 192.168.0.0/16 -j HIT"] });
});

Deno.test("a change touches the chains on its path, including removed ones", () => {
  const changing = tree();
  for (let i = 0; i <= LEAF_CAPACITY; i++) add(changing, `10.96.0.${i}`);
  changing.takeTouched();
  add(changing, "10.96.0.200");
  assert.deepEqual(changing.takeTouched().sort(), ["ENTRY", "KUBE-SVC-TO-0a6000"]);
  for (const i of [1, 2]) {
    changing.remove({ place: frontendPlace(`10.96.0.${i}`, "tcp", 80), owner: `default/10.96.0.${i}:80|tcp` });
  }
  const touched = changing.takeTouched();
  assert.ok(touched.includes("KUBE-SVC-TO-0a60001"), touched.join());
  assert.equal(changing.render("KUBE-SVC-TO-0a60001"), undefined);
  assert.equal(changing.render("ENTRY")!.rules.length, LEAF_CAPACITY);
});
