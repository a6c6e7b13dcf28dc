import { choice } from "../../config/mod.ts";
import { answersOf, chosen, jsonText } from "./asking.ts";
import type { Command } from "./command.ts";

const OUTPUT = choice("output", ["table", "json", "yaml"], "How it is written.", "o");

/** What there is to be served, and by which endpoints. */
export const getCommand: Command = {
  name: "get",
  summary: "List services, or endpoints with the reason why each is used or not.",
  arguments: [
    { name: "services|endpoints", description: "what to list", required: true, values: ["services", "endpoints"] },
    { name: "NAME", description: "only of services with this in namespace/name:port", required: false },
  ],
  flags: [OUTPUT],
  examples: [
    { line: "sluice get services", does: "every service port, its frontends and how many endpoints are in use" },
    { line: "sluice get endpoints default/web", does: "why an endpoint gets no traffic" },
    { line: "sluice get services -o json --source file:services.yaml", does: "for a program, without a running proxy" },
  ],
  async start(invocation) {
    const output = chosen(invocation, OUTPUT);
    const [what, name = ""] = invocation.arguments;
    const { endpointsTable, servicesTable } = await import("../../answers/mod.ts");
    const answers = await answersOf(invocation);
    const write = async <T>(items: readonly T[], table: (items: readonly T[]) => string) => {
      if (output === "table") return invocation.print(table(items));
      if (output === "json") return invocation.print(jsonText(items));
      const { loadYaml } = await import("../../platform/mod.ts");
      const { stringify } = await loadYaml();
      invocation.print(stringify(items));
    };
    if (what === "services") await write(await answers.services(name), servicesTable);
    else await write(await answers.endpoints(name), endpointsTable);
    return 0;
  },
};
