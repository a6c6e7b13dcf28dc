import type { ListedService } from "../../answers/mod.ts";
import { suggestion } from "../../config/mod.ts";
import { loadYaml } from "../../platform/mod.ts";
import {
  answersOf,
  type Command,
  isJson,
  linesText,
  outputFlags,
  printAs,
  PROXY_STATUS,
  TIMEOUT_FLAG,
} from "./command.ts";

const ALIASES = { service: "services", svc: "services", endpoint: "endpoints", ep: "endpoints" };

/** `sluice get`: lists of services and endpoints. */
export const getCommand: Command = {
  name: "get",
  summary: "List services, or endpoints with the reason why each is in use or not.",
  arguments: [
    {
      name: "services|endpoints",
      description: "what to list",
      required: true,
      values: ["services", "endpoints"],
      aliases: ALIASES,
    },
    {
      name: "NAME",
      description: "only services whose namespace/name:port contains this",
      required: false,
      completes: "service",
    },
  ],
  flags: [TIMEOUT_FLAG, ...outputFlags(["table", "json", "yaml", "name"])],
  installed: { part: "configuration" },
  exitStatuses: PROXY_STATUS,
  examples: {
    "sluice get services": "every service port with its frontends and its number of endpoints in use",
    "sluice get endpoints default/web": "why an endpoint gets no traffic",
    "sluice get services -o json --source file:services.yaml": "as JSON, without a running proxy",
  },
  async start(invocation) {
    const { flags, print } = invocation;
    const output = isJson(invocation) ? "json" : flags.get("output") ?? "table";
    const [what, name = ""] = invocation.arguments;
    const { endpointsTable, servicesTable } = await import("../text/mod.ts");
    const answers = await answersOf(invocation);
    const services = await answers.services(name);
    if (services.length === 0 && name !== "") {
      const known = namesOf(await answers.services(""));
      throw new Error(`no service port has a name that contains ${JSON.stringify(name)}${suggestion(name, known)}`);
    }
    if (output === "name") {
      print(linesText(namesOf(services)));
      return 0;
    }
    const endpoints = what === "endpoints" ? await answers.endpoints(name) : undefined;
    const items = endpoints ?? services;
    if (output === "yaml") print((await loadYaml()).stringify(items));
    else printAs(invocation, items, () => endpoints ? endpointsTable(endpoints) : servicesTable(services));
    return 0;
  },
};

/** `namespace/name` of each service. */
function namesOf(services: readonly ListedService[]): readonly string[] {
  return [...new Set(services.map(({ name }) => name.replace(/:.*/, "")))];
}
