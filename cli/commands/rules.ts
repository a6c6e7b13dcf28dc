/** `sluice render` and `sluice diff`: the rules that the desired state results in, and those in the kernel. */
import type { NodeView } from "../../answers/status/mod.ts";
import type { Difference } from "../../backends/dry_run/mod.ts";
import {
  answersOf,
  type Command,
  familiesOf,
  FAMILY_FLAG,
  type Invocation,
  printAs,
  PROXY_STATUS,
  TEXT_OR_JSON,
  TIMEOUT_FLAG,
  toolRunner,
} from "./command.ts";
import type { Family } from "../../core/model/mod.ts";
import { errorText, writeToStderr } from "../../platform/mod.ts";

/** `sluice render`: prints the exact input of the kernel's tools. */
export const renderCommand: Command = {
  name: "render",
  summary: "Print the input of the kernel's tools without running them.",
  flags: [FAMILY_FLAG, TIMEOUT_FLAG],
  installed: { part: "configuration" },
  exitStatuses: PROXY_STATUS,
  examples: {
    "sluice render --source file:services.yaml": "the input of iptables-restore and ip6tables-restore",
    "sluice render --source file:services.yaml --proxy-mode nftables --family IPv6": "the input of nft",
  },
  async start(invocation) {
    const { clock, print } = invocation;
    const { dryRun } = await import("../../backends/dry_run/mod.ts");
    const answers = await answersOf(invocation);
    for (const family of familiesOf(invocation)) {
      const run = { family, state: await answers.state(family), clock };
      await dryRun(run, {
        read: undefined,
        onChange({ tool, args, stdin }) {
          print(`# ${[tool, ...args].join(" ")}\n`);
          for (const text of inLargePieces(stdin ?? [])) print(text);
        },
      });
    }
    return 0;
  },
};

const PIECE_CHARACTERS = 65_536;

function* inLargePieces(lines: Iterable<string>): Generator<string> {
  let piece = "";
  for (const line of lines) {
    piece += line;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = "";
  }
  yield piece;
}

/** `sluice diff`: compares the kernel with the desired state. */
export const diffCommand: Command = {
  name: "diff",
  summary: "Show how the kernel differs from the desired state; changes nothing.",
  flags: [FAMILY_FLAG, TIMEOUT_FLAG, ...TEXT_OR_JSON],
  installed: { part: "configuration" },
  exitStatuses: { 0: "no differences", 1: "differences", 2: "failed" },
  examples: {
    "sluice diff": "what another program has changed, for example",
    "sluice diff --source file:services.yaml --proxy-mode nftables": "compares with the services of these manifests",
  },
  startsPrograms: true,
  async start(invocation) {
    try {
      return await compare(invocation);
    } catch (error) {
      writeToStderr(`sluice diff: cannot compare with the kernel: ${errorText(error)}\n`);
      return 2;
    }
  },
};

/** How often a family is compared while its state keeps changing. */
const MAX_COMPARISONS = 5;

type Found = Difference & { readonly family: Family };

async function compare(invocation: Invocation): Promise<0 | 1> {
  const { clock } = invocation;
  const { compareWithKernel } = await import("../../backends/dry_run/mod.ts");
  const answers = await answersOf(invocation);
  const runner = await toolRunner(invocation);
  const found: Found[] = [];
  const unserved = "status" in answers ? unservedFamilies(await answers.status()) : [];
  for (const family of familiesOf(invocation)) {
    if (unserved.includes(family)) {
      writeToStderr(`sluice: skipping ${family}, which this host cannot serve\n`);
      continue;
    }
    let state = await answers.state(family);
    for (let comparisons = 1;; comparisons++) {
      const differences = await compareWithKernel({ family, state, clock }, runner);
      // A running proxy may have changed the kernel during the comparison.
      const after = differences.length === 0 ? state : await answers.state(family);
      if (after.revision === state.revision || comparisons === MAX_COMPARISONS) {
        found.push(...differences.map((difference) => ({ family, ...difference })));
        break;
      }
      state = after;
    }
  }
  printAs(invocation, found, () => found.map(differenceText).join(""));
  return found.length === 0 ? 0 : 1;
}

function differenceText({ family, place, what, lines }: Found): string {
  return [`${family} ${place} ${DIFFERENCE_TEXTS[what]}\n`, ...lines.map(({ sign, text }) => `  ${sign} ${text}\n`)]
    .join("");
}

function unservedFamilies({ families }: NodeView): readonly Family[] {
  return families.flatMap(({ family, worker }) => worker.state === "unfit" && worker.unsupported ? family : []);
}

const DIFFERENCE_TEXTS: Readonly<Record<Difference["what"], string>> = {
  differs: "differs",
  missing: "is missing",
  unwanted: "should not be there",
};
