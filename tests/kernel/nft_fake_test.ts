/** The fake nft answers as the real one: runs the same transactions with both, the real one in a new network namespace. */
import assert from "node:assert/strict";
import { asRendered } from "../../backends/nftables/listing.ts";
import { createFakeNftHost } from "../fakes/nft_runner.ts";
import { backendUnderTest } from "../unit/backends/nftables/host.ts";
import { everyKindOfPort, everyKindOfSettings } from "./every_kind.ts";
import { CASES, type NftCase } from "./nft_cases.ts";
import { type Answer, inMemory, onKernel, type Step } from "./tool_steps.ts";

const LISTINGS = [
  "list set ip sluice count-attempts",
  ...["list table ip sluice", "list table ip6 sluice", "-a list chains ip", "list tables ip"],
].map((
  words,
): Step => ({
  tool: "nft",
  args: words.split(" "),
}));

function stepsOf({ transactions }: NftCase): Step[] {
  return transactions.flatMap((stdin) => [{ tool: "nft", args: ["-f", "-"], stdin }, ...LISTINGS]);
}

/**
 * Removes what the fake does not reproduce: the position of an error, whether nft or the kernel found it, further errors, the
 * numbers of handles, and the version of nft. Sorts the elements of sets, whose order depends on the kernel's hash.
 */
function comparable(answers: readonly Answer[]): Answer[] {
  return answers.map((answer) => ({
    ...answer,
    stdout: answer.stdout.replace(/(\belements = \{) ([^}]*) \}/g, (_, head, list) => `${head} ${inOrder(list)} }`)
      .replace(/ # handle \d+$/gm, " # handle")
      .replace(/^\t\t(.*)$/gm, (_, line) => `\t\t${asRendered(line)}`),
    stderr: /Error: (?:Could not process rule: )?([^;,\n]*)/.exec(answer.stderr)?.[1] ?? "",
  }));
}

/** Sorts elements, keeping the number of elements on each line. */
function inOrder(list: string): string {
  const lines = list.split(",\n").map((line) => line.trim().split(", "));
  const sorted = lines.flat().sort();
  return lines.map(({ length }) => sorted.splice(0, length).join(", ")).join("\n");
}

for (const each of CASES) {
  Deno.test(`the fake nft matches the real one for ${each.name}`, async () => {
    const steps = stepsOf(each);
    assert.deepEqual(comparable(await inMemory(steps, createFakeNftHost().runner)), comparable(await onKernel(steps)));
  });
}

for (const family of ["IPv4", "IPv6"] as const) {
  Deno.test(`the fake nft matches the real one for all transactions of the ${family} backend`, async () => {
    const { host, snapshot, change } = backendUnderTest(createFakeNftHost(), family);
    const ports = everyKindOfPort(family), settings = everyKindOfSettings(family);
    for (const each of settings) await snapshot(ports, each);
    await change(
      ports.map((port, i) => ({ ...ports[(i + 1) % ports.length]!, name: port.name, clusterIP: port.clusterIP })),
    );
    await snapshot(ports.slice(5), settings[0]);
    const transactions = host.transactions.map((statements) => statements.map((line) => `${line}\n`).join(""));
    const steps = stepsOf({ name: "", transactions });
    assert.deepEqual(comparable(await inMemory(steps, createFakeNftHost().runner)), comparable(await onKernel(steps)));
  });
}
