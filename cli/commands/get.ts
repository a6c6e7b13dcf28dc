import type { Answers, ListedService } from "../../answers/mod.ts";
import { suggestion } from "../../config/mod.ts";
import { answersOf, type Command, isJson, jsonText, outputFlags, TIMEOUT_FLAG } from "./command.ts";

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
  examples: {
    "sluice get services": "every service port with its frontends and its number of endpoints in use",
    "sluice get endpoints default/web": "why an endpoint gets no traffic",
    "sluice get services -o json --source file:services.yaml": "as JSON, without a running proxy",
  },
  async start(invocation) {
    const output = isJson(invocation) ? "json" : invocation.flags.get("output") ?? "table";
    const [what, name = ""] = invocation.arguments;
    const { endpointsTable, servicesTable } = await import("../text/mod.ts");
    const answers = await answersOf(invocation);
    const write = async <T>(items: readonly T[], table: (items: readonly T[]) => string) => {
      if (output === "table") return invocation.print(table(items));
      if (output === "json") return invocation.print(jsonText(items));
      const { loadYaml } = await import("../../platform/mod.ts");
      const { stringify } = await loadYaml();
      invocation.print(stringify(items));
    };
    const services = await answers.services(name);
    if (services.length === 0 && name !== "") throw new Error(await noneNamed(name, answers));
    if (output === "name") invocation.print(namesText(services));
    else if (what === "services") await write(services, servicesTable);
    else await write(await answers.endpoints(name), endpointsTable);
    return 0;
  },
};

/** `namespace/name` of each service, one per line. */
function namesText(services: readonly ListedService[]): string {
  return [...new Set(services.map(({ name }) => serviceOf(name)))].map((name) => `${name}\n`).join("");
}

function serviceOf(servicePort: string): string {
  return servicePort.replace(/:.*/, "");
}

async function noneNamed(name: string, answers: Pick<Answers, "services">): Promise<string> {
  const known = new Set((await answers.services("")).map((service) => serviceOf(service.name)));
  return `no service port has a name that contains ${JSON.stringify(name)}${suggestion(name, known)}`;
}
