import { type CommandSpec, type Flag, FLAG_GROUPS, placeholderOf, usageLine } from "../../config/mod.ts";
import { VERSION } from "../../platform/mod.ts";

/** What a page says beside what the commands' specs say. */
export interface ManualTexts {
  /** Paths, each with what it is. */
  readonly files: Readonly<Record<string, string>>;
}

/** The page of the manual, section 8, in the man macros. */
export function manPage(commands: readonly CommandSpec[], { files }: ManualTexts): string {
  return [
    `.TH SLUICE 8 "" "Sluice ${VERSION}" "System Administration"`,
    ".SH NAME",
    "sluice \\- Kubernetes service proxy",
    ".SH SYNOPSIS",
    ...commands.flatMap((command, i) => [...(i === 0 ? [] : [".br"]), `.B ${roff(usageLine(command))}`]),
    ".SH DESCRIPTION",
    roff(
      "Sluice does kube-proxy's job: it watches Services, EndpointSlices and its Node, and keeps the kernel of the node " +
        "(iptables, nftables or IPVS, of both IP families) balancing connections over the endpoints. Without a command " +
        "it runs the proxy, with kube-proxy's flags and configuration file. Every command takes the flags of run.",
    ),
    ".SH COMMANDS",
    ...commands.flatMap(commandPart),
    ".SH FLAGS",
    ...FLAG_GROUPS.flatMap(({ title, flags }) => [
      `.SS ${roff(title)}`,
      ...(flags.every(({ effective }) => !effective)
        ? [roff(flags.map(({ name }) => `--${name}`).join(", "))]
        : flags.flatMap(flagPart)),
    ]),
    ".SH EXIT STATUS",
    ...tagged("0", "it did what was asked; check: nothing is red; diff: the kernel holds what it should"),
    ...tagged("1", "it failed; check: something is red; diff: the kernel differs"),
    ...tagged("2", "the command line or the configuration is wrong, and nothing was done; diff: it failed"),
    ".SH FILES",
    ...Object.entries(files).flatMap(([path, what]) => tagged(path, what)),
    ".SH SEE ALSO",
    ".BR nft (8),",
    ".BR iptables (8),",
    ".BR ipvsadm (8),",
    ".BR conntrack (8)",
    "",
  ].join("\n");
}

function commandPart(command: CommandSpec): string[] {
  const { name, summary, arguments: words, flags, examples } = command;
  return [
    `.SS ${roff(name)}`,
    roff(summary),
    ...words.flatMap(({ name, description }) => tagged(name, description)),
    ...flags.flatMap(flagPart),
    ...examples.flatMap((
      { line, does },
    ) => [".PP", roff(`${capital(does)}:`), ".PP", ".RS 4", ".nf", roff(line), ".fi", ".RE"]),
  ];
}

function flagPart(flag: Flag): string[] {
  const letter = flag.letter === undefined ? "" : `-${flag.letter}, `;
  return tagged(`${letter}--${flag.name} ${placeholderOf(flag)}`, flag.description);
}

function tagged(tag: string, text: string): string[] {
  return [".TP", `.B ${roff(tag)}`, roff(text)];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Text in which nothing is taken for a request, an escape, or a hyphen that may be broken at. */
function roff(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll('"', "\\(dq").replace(/^(?=[.'])/gm, "\\&")
    .replace(
      /[^\0-\x7f]/gu,
      (character) => `\\[u${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}]`,
    );
}
