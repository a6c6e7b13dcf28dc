/** The generation of the ruleset, tested on the kernel in the namespaces of this suite. */
import assert from "node:assert/strict";
import { openRulesetGeneration } from "../../backends/tools/ruleset_generation.ts";

async function run(tool: string, ...args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(tool, { args: [...args] }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
}

const nft = (...args: readonly string[]) => run("nft", ...args);

/** A table with a chain, and a set that packets to port 9 of this host's loopback address fill. */
const RULES = `table ip generation {
  set clients { type ipv4_addr; flags dynamic,timeout; timeout 1m; }
  chain out { type filter hook output priority 0; udp dport 9 update @clients { ip saddr }; }
}`;

Deno.test({
  name: "the generation changes with each change of the ruleset, and with nothing else",
  // The rest of the tests keeps its permissions.
  permissions: { ffi: true, run: ["nft", "iptables-nft", "iptables-legacy"], net: true },
  async fn() {
    const generation = openRulesetGeneration();
    assert.ok(generation);
    const changesWith = async (change: () => unknown) => {
      const before = generation();
      assert.ok(before !== undefined);
      await change();
      return generation() !== before;
    };
    const packet = async () => {
      const socket = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
      await socket.send(new Uint8Array(1), { transport: "udp", hostname: "127.0.0.1", port: 9 });
      socket.close();
    };
    const steps: readonly [string, () => unknown, boolean][] = [
      ["a table", () => nft(RULES), true],
      ["a listing", () => nft("list", "ruleset"), false],
      ["a packet that adds an element", packet, false],
      ["the element of the packet is deleted", () => nft("delete element ip generation clients { 127.0.0.1 }"), true],
      ["a transaction that fails", () => assert.rejects(nft("add rule ip generation absent accept")), false],
      ["a flushed table", () => nft("flush", "table", "ip", "generation"), true],
      ["another table of another family", () => nft("add", "table", "ip6", "other"), true],
      ["a chain of iptables", () => run("iptables-nft", "-N", "GENERATION"), true],
      ["it is deleted", () => run("iptables-nft", "-X", "GENERATION"), true],
      // These rules are not nf_tables', so the generation proves nothing about them.
      ["a chain of the legacy iptables", () => run("iptables-legacy", "-N", "GENERATION"), false],
      ["it is deleted", () => run("iptables-legacy", "-X", "GENERATION"), false],
      ["the tables are deleted", () => nft("delete table ip generation; delete table ip6 other"), true],
    ];
    for (const [what, step, isChange] of steps) assert.equal(await changesWith(step), isChange, what);
  },
});
