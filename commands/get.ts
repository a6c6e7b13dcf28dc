import { option, text } from "../core/config/mod.ts";
import { answersOf, choiceOf, jsonText, misused } from "./asking.ts";
import type { Command } from "./command.ts";

/** What there is to be served, and by which endpoints. */
export const getCommand: Command = {
  name: "get",
  summary: "List services, or endpoints with the reason why each is used or not.",
  arguments: [
    { name: "services|endpoints", description: "what to list", required: true },
    { name: "NAME", description: "only of services with this in namespace/name:port", required: false },
  ],
  flags: [option("output", text("table"), "How it is written: table, json or yaml.", "o")],
  examples: [
    { line: "sluice get services", does: "every service port, its frontends and how many endpoints are in use" },
    { line: "sluice get endpoints default/web", does: "why an endpoint gets no traffic" },
    { line: "sluice get services -o json --source file:services.yaml", does: "for a program, without a running proxy" },
  ],
  async start(invocation) {
    const output = choiceOf(invocation, "output", ["table", "json", "yaml"]);
    if (output === undefined) return 2;
    const [what, name = ""] = invocation.arguments;
    if (what !== "services" && what !== "endpoints") {
      return misused(`${JSON.stringify(what)} cannot be listed: must be services or endpoints`);
    }
    const { endpointsTable, servicesTable } = await import("../core/answers/mod.ts");
    const answers = await answersOf(invocation);
    const write = async <T>(items: readonly T[], table: (items: readonly T[]) => string) => {
      if (output === "table") return invocation.print(table(items));
      if (output === "json") return invocation.print(jsonText(items));
      const { stringify } = await import("yaml");
      invocation.print(stringify(items));
    };
    if (what === "services") await write(await answers.services(name), servicesTable);
    else await write(await answers.endpoints(name), endpointsTable);
    return 0;
  },
};
