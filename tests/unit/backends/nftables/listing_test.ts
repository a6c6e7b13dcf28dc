/** The lines of chains and sets, as different versions of nft print them. */
import assert from "node:assert/strict";
import { udpFrontend } from "../../../../backends/host/mod.ts";
import { asRendered } from "../../../../backends/nftables/listing.ts";
import { udpFrontendsOf } from "../../../../backends/nftables/realized.ts";
import { DIALECTS } from "../../../../backends/nftables/table.ts";

const ATTEMPTS = "ct status dnat update @count-attempts { ip saddr . tcp sport . ct direction }";
const OUTPUT = "type filter hook output priority", INPUT = "type nat hook input priority";

/** A line as it is rendered, and how versions of nft print it. */
const LINES: readonly (readonly [string, ...string[]])[] = [
  [`${OUTPUT} -110; policy accept;`, `${OUTPUT} dstnat - 10; policy accept;`],
  [`${OUTPUT} -100; policy accept;`, `${OUTPUT} dstnat; policy accept;`],
  [`${OUTPUT} filter; policy accept;`],
  [`${INPUT} 99; policy accept;`, `${INPUT} srcnat - 1; policy accept;`],
  ["type nat hook prerouting priority dstnat; policy accept;"],
  ["type nat hook postrouting priority srcnat - 1; policy accept;"],
  [`tcp flags syn,ack / syn,ack ${ATTEMPTS}`, `tcp flags & (syn | ack) == syn | ack ${ATTEMPTS}`],
  ["meta mark & 0x80000000 == 0x00000000 return", "meta mark 0x00000000/1 return"],
  ["size 65535", "size 65535\t# count 12"],
];

Deno.test("a line reads the same from every version of nft", () => {
  for (const [rendered, ...printed] of LINES) {
    for (const line of [rendered, ...printed]) assert.equal(asRendered(line), rendered);
  }
});

Deno.test("the UDP frontends of a table are those that serve, reject, drop, or admit some packets only", () => {
  const listing = new Map(
    [
      ["services", new Map([["10.96.0.1 . udp . 53", "goto a"], ["10.96.0.2 . tcp . 80", "goto b"]])],
      ["refused", new Map([["10.96.0.3 . udp . 53", ""]])],
      ["dropped", new Map([["192.0.2.1 . udp . 53", ""]])],
      ["restricted", new Map([["0.0.0.0 . udp . 30053", "goto c"]])],
      ["cluster-ips", new Map([["10.96.0.4", ""]])],
    ] as const,
  );
  assert.deepEqual(
    udpFrontendsOf(listing, DIALECTS.IPv4),
    new Set([
      udpFrontend("10.96.0.1", 53),
      udpFrontend("10.96.0.3", 53),
      udpFrontend("192.0.2.1", 53),
      udpFrontend(undefined, 30053),
    ]),
  );
});
