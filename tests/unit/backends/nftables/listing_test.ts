/** The listing of the table, as different versions of nft print it. */
import assert from "node:assert/strict";
import { readTable } from "../../../../backends/nftables/listing.ts";
import type { NftTools } from "../../../../backends/nftables/tools.ts";

/** Reads a table with one output chain of this priority. */
async function chainPrinted(priority: string): Promise<string | undefined> {
  const lines = [
    "table ip sluice {",
    "\tchain first {",
    `\t\ttype filter hook output priority ${priority}; policy accept;`,
    "\t\tjump other",
    "\t}",
    "}",
  ];
  const tools = {
    listTable(onLine: (line: string) => void) {
      lines.forEach(onLine);
      return Promise.resolve(true);
    },
  } as NftTools;
  return (await readTable(tools))?.chains.get("first");
}

Deno.test("the priority of an output hook reads the same from every version of nft", async () => {
  const text = (priority: string) => `type filter hook output priority ${priority}; policy accept;\njump other`;
  for (const [printed, read] of [["-110", "-110"], ["dstnat - 10", "-110"], ["dstnat", "-100"], ["filter", "filter"]]) {
    assert.equal(await chainPrinted(printed!), text(read!), printed);
  }
});
