import type { ListedService } from "../../answers/mod.ts";
import { boolean, flagValue, option, text } from "../../config/mod.ts";
import { loadYaml, suggestion } from "../../platform/mod.ts";
import {
  answersOf,
  type Command,
  isJson,
  linesText,
  outputFlags,
  printAs,
  PROXY_STATUS,
  TIMEOUT_FLAG,
  UsageError,
} from "./command.ts";

const ALIASES = { service: "services", svc: "services", endpoint: "endpoints", ep: "endpoints" };

const NAMESPACE = option("namespace", text(), "Only services of this namespace; of all by default.", "n");
const ALL = option("all-namespaces", boolean(), "Services of all namespaces, which is the default.", "A");

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
    { name: "NAME", description: "only services whose namespace/name:port contains this", completes: "service" },
  ],
  flags: [NAMESPACE, ALL, TIMEOUT_FLAG, ...outputFlags(["table", "json", "yaml", "name"])],
  installed: { part: "configuration" },
  exitStatuses: PROXY_STATUS,
  examples: {
    "sluice get services": "every service port with its frontends and its number of endpoints in use",
    "sluice get endpoints default/web": "why an endpoint gets no traffic",
    "sluice get services -n kube-system": "of one namespace",
    "sluice get services -o json --source file:services.yaml": "as JSON, without a running proxy",
  },
  async start(invocation) {
    const { flags, print } = invocation;
    const output = isJson(invocation) ? "json" : flags.get("output") ?? "table";
    const [what, name = ""] = invocation.arguments;
    const { endpointsTable, servicesTable } = await import("../text/mod.ts");
    const answers = await answersOf(invocation);
    const namespace = flagValue(flags, NAMESPACE);
    if (namespace !== undefined && flagValue(flags, ALL) === true) {
      throw new UsageError("get: --namespace and --all-namespaces contradict each other");
    }
    const isWanted = (portName: string) => namespace === undefined || portName.startsWith(`${namespace}/`);
    const services = (await answers.services(name)).filter(({ name }) => isWanted(name));
    if (services.length === 0 && (name !== "" || namespace !== undefined)) {
      throw new Error(nothingFound(name, namespace, namesOf(await answers.services(""))));
    }
    if (output === "name") {
      print(linesText(namesOf(services)));
      return 0;
    }
    const endpoints = what === "endpoints"
      ? (await answers.endpoints(name)).filter(({ service }) => isWanted(service))
      : undefined;
    const items = endpoints ?? services;
    if (output === "yaml") print((await loadYaml()).formatYaml(items));
    else printAs(invocation, items, () => endpoints ? endpointsTable(endpoints) : servicesTable(services));
    return 0;
  },
};

/** Says that no service has the name or the namespace, with the nearest of the known ones. */
function nothingFound(name: string, namespace: string | undefined, known: readonly string[]): string {
  if (namespace === undefined) {
    return `no service port has a name that contains ${JSON.stringify(name)}${suggestion(name, known)}`;
  }
  const there = known.filter((one) => one.startsWith(`${namespace}/`));
  if (there.length > 0) {
    return `no service port of namespace ${namespace} has a name that contains ${JSON.stringify(name)}` +
      suggestion(`${namespace}/${name}`, there);
  }
  const namespaces = new Set(known.map((one) => one.slice(0, one.indexOf("/"))));
  return `no service is in namespace ${namespace}${suggestion(namespace, namespaces)}`;
}

/** `namespace/name` of each service. */
function namesOf(services: readonly ListedService[]): readonly string[] {
  return [...new Set(services.map(({ name }) => name.replace(/:.*/, "")))];
}
