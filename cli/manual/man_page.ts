import { type CommandSpec, type Flag, FLAG_GROUPS, placeholderOf, usageLine } from "../../config/mod.ts";
import { VERSION } from "../../platform/mod.ts";

/** Content of the page that is not in the commands' specs. */
export interface ManualTexts {
  /** Descriptions of files by path. */
  readonly files: Readonly<Record<string, string>>;
  /** Descriptions of environment variables by name. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Returns the man page (section 8) in the man macros. */
export function manPage(commands: readonly CommandSpec[], { files, environment }: ManualTexts): string {
  return [
    `.TH SLUICE 8 "" "Sluice ${VERSION}" "System Administration"`,
    ".SH NAME",
    "sluice \\- Kubernetes service proxy",
    ".SH SYNOPSIS",
    ...commands.flatMap((command, i) => [...(i === 0 ? [] : [".br"]), `.B ${roff(usageLine(command))}`]),
    ".SH DESCRIPTION",
    roff(
      "Sluice replaces kube-proxy: it watches Services, EndpointSlices and its Node, and programs the node's kernel " +
        "(iptables, nftables or IPVS, both IP families) to balance connections over the endpoints. Without a command " +
        "it runs the proxy, with kube-proxy's flags and configuration file. Every command accepts the flags of run.",
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
    ...tagged("0", "success; check: nothing is red; diff: no difference"),
    ...tagged("1", "failure; check: something is red; diff: the kernel differs"),
    ...tagged("2", "usage or configuration error, nothing was done; diff: failure"),
    ".SH ENVIRONMENT",
    ...Object.entries(environment).flatMap(([name, what]) => tagged(name, what)),
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

/** Escapes text for roff: no requests, escapes or breakable hyphens. */
function roff(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll('"', "\\(dq").replace(/^(?=[.'])/gm, "\\&")
    .replace(
      /[^\0-\x7f]/gu,
      (character) => `\\[u${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}]`,
    );
}
