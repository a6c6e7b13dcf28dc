import { type CommandSpec, RUN } from "../../config/mod.ts";

/** The help of the program as a whole: what it is and its commands, on one screen. */
export function programHelp(commands: readonly CommandSpec[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  return `Sluice is a Kubernetes service proxy: it keeps this node's kernel balancing connections to services over their endpoints.

Usage: sluice [command] [arguments] [flags]

Without a command, sluice runs the proxy, with kube-proxy's flags and configuration file.

Commands:
${commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join("\n")}

sluice COMMAND --help shows a command's flags and examples; sluice ${RUN} --help lists kube-proxy's flags.
`;
}
