import { answersOf } from "./answer_source.ts";
import { type Command, familiesOf, FAMILY_FLAG } from "./command.ts";

/** `sluice render`: prints the exact input of the kernel's tools. */
export const renderCommand: Command = {
  name: "render",
  summary: "Print the input of the kernel's tools without running them.",
  arguments: [],
  flags: [FAMILY_FLAG],
  installed: { part: "configuration" },
  examples: [
    { line: "sluice render --source file:services.yaml", does: "the input of iptables-restore and ip6tables-restore" },
    { line: "sluice render --source file:services.yaml --proxy-mode nftables --family IPv6", does: "the input of nft" },
  ],
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
