/** Questions about a connection: their destinations by address or by name. */
import type { AnswerBasis } from "./basis.ts";
import { frontendsOf, type Protocol, type ServicePort } from "../core/model/mod.ts";
import { serviceKeyOf } from "../core/tracking/mod.ts";
import { canonicalAddress, FAMILIES, type Family, familyOf, splitHostPort, suggestion } from "../platform/mod.ts";

/** The kinds of sources that rules distinguish: this node, a pod on it, or anywhere else. */
export type Origin = "node" | "pod" | "outside";

/** All origins, in the order in which they are explained. */
export const ORIGINS: readonly Origin[] = ["pod", "node", "outside"];

/** A question about a new connection to a destination. */
export interface Question {
  readonly family: Family;
  /** Canonical. */
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  /** An origin, or a canonical address of the same family; undefined for every origin. */
  readonly from: string | undefined;
}

/** A malformed question. The message is meant for the user. */
export class QuestionError extends Error {
  override readonly name = "QuestionError";
  /** The exit status of a command that ends with this error. */
  readonly exitStatus = 2;
}

const DESTINATION = /^(.+:\d+)(?:\/(tcp|udp|sctp))?$/i;

/**
 * Parses a destination (`ADDRESS:PORT`, `[ADDRESS]:PORT` for IPv6, followed by `/udp` or `/sctp` unless it is TCP) and a source
 * (`pod`, `node`, `outside` or an address).
 * @throws {QuestionError}
 */
export function readQuestion(destination: string, from?: string): Question {
  const [, target, protocol = "tcp"] = DESTINATION.exec(destination) ?? [];
  const { address: given, port } = splitHostPort(target ?? "");
  const isBareIPv6 = given.includes(":") && !target?.startsWith("[");
  const address = isBareIPv6 ? undefined : canonicalAddress(given);
  if (address === undefined || port < 1 || port > 65_535) {
    const form = "ADDRESS:PORT, or [ADDRESS]:PORT for IPv6, followed by /udp or /sctp unless it is TCP";
    throw new QuestionError(`${JSON.stringify(destination)} is not a destination: use ${form}`);
  }
  const family = familyOf(address);
  return { family, address, port, protocol: protocol.toLowerCase() as Protocol, from: readFrom(from, family) };
}

/** Whether a destination is written as an address and a port; other forms are names, or an address alone. */
export function isAddressAndPort(destination: string): boolean {
  // `fd00::1:80` is an address, too.
  if (canonicalAddress(destination) !== undefined) return false;
  return canonicalAddress(splitHostPort(DESTINATION.exec(destination)?.[1] ?? "").address) !== undefined;
}

/**
 * Reads a source: one of ORIGINS, or an address of this family.
 * @throws {QuestionError}
 */
function readFrom(from: string | undefined, family: Family): string | undefined {
  if (from === undefined || (ORIGINS as readonly string[]).includes(from)) return from;
  const address = canonicalAddress(from);
  if (address === undefined) {
    throw new QuestionError(`--from is ${JSON.stringify(from)}: must be an address, or one of ${ORIGINS.join(", ")}`);
  }
  if (familyOf(address) !== family) {
    throw new QuestionError(`--from is ${address}: it must be an ${family} address like the destination`);
  }
  return address;
}

/** A name, `:` with a port's number or name, and `/` with a protocol: `default/web:http`, `node-a:53/udp`. */
const NAME = /^(?<name>[a-z0-9.-]+(?:\/[a-z0-9.-]+)?)(?::(?<port>[a-z0-9-]+))?(?:\/(?<protocol>tcp|udp|sctp))?$/i;
/** An address without a port: `10.96.0.10`, `fd00::a/udp`, `[fd00::a]`. */
const ADDRESS = /^(?:\[(?<inner>[^\]]+)\]|(?<bare>[^/]+))(?:\/(?<protocol>tcp|udp|sctp))?$/i;
/** An address and a port's name: `10.96.0.10:http`, `[fd00::a]:http/tcp`. */
const ADDRESS_AND_NAME =
  /^(?:\[(?<inner>[^\]]+)\]|(?<bare>[0-9.]+)):(?<port>[a-z0-9-]*[a-z][a-z0-9-]*)(?:\/(?<protocol>tcp|udp|sctp))?$/i;
/** A question about a ping: `10.96.0.10/icmp`. */
const PING = /^\[?(?<address>[0-9a-f.:]+?)\]?\/icmp(?:v?6)?$/i;
/** Digits and dots, with a port or not, as of an IPv4 address. */
const LIKE_IPV4 = /^(?<address>\d+(?:\.\d+){2,})(?::[a-z0-9-]+)?(?:\/[a-z]+)?$/i;
/** A service's DNS name: `web.default`, `web.default.svc`, `web.default.svc.cluster.local`. */
const DNS_NAME = /^([a-z0-9-]+)\.([a-z0-9-]+)(?:\.svc(?:\.[a-z0-9.-]+)?)?$/i;

const MOST_NAMESAKES = 8;

type Port = ServicePort & { readonly family: Family };

type Destination = Omit<Question, "from">;

/**
 * Finds the destinations that a name stands for: the cluster IPs and ports of a service (`default/web`, `web.default:80`, or
 * `web` if only one namespace has it), the ports at an address, or a node port of this node (`node-a:30080`), in each
 * family. `from` is as in `readQuestion`; with an address, only its family is used.
 * @throws {QuestionError} if nothing has this name; the message names near misses
 */
export function resolveDestination(text: string, from: string | undefined, basis: AnswerBasis): readonly Question[] {
  const ports = FAMILIES.flatMap((family) =>
    [...basis.families[family].planner.ports()].map(({ planned, wanted }): Port => ({ ...planned ?? wanted, family }))
  );
  const found = withAddress(text, ports, basis) ?? withPortName(text, ports) ?? withName(text, ports, basis);
  const client = from === undefined ? undefined : canonicalAddress(from);
  const ofFamily = client === undefined ? found : found.filter(({ family }) => family === familyOf(client));
  // A client of the other family is refused by the first destination.
  return (ofFamily.length > 0 ? ofFamily : found).map((destination) => (
    { ...destination, from: readFrom(from, destination.family) }
  ));
}

function destinationAt(address: string, { family, port, protocol }: Port): Destination {
  return { family, address, port, protocol };
}

/** Every port at an address of services; undefined if the text is not an address. */
function withAddress(
  text: string,
  ports: readonly Port[],
  { mode }: Pick<AnswerBasis, "mode">,
): readonly Destination[] | undefined {
  const pinged = canonicalAddress(PING.exec(text)?.groups?.address ?? "");
  if (pinged !== undefined) throw noDestination(text, pingText(pinged, ports, mode));
  const { inner, bare = inner, protocol } = ADDRESS.exec(text)?.groups ?? {};
  const address = bare === undefined ? undefined : canonicalAddress(bare);
  if (address === undefined) return undefined;
  const found = portsAt(address, ports).filter((one) => isOf(one, protocol));
  if (found.length > 0) return found.map((one) => destinationAt(address, one));
  const place = `${address.includes(":") ? `[${address}]` : address}:PORT`;
  throw noDestination(
    text,
    protocol === undefined
      ? `no service has this address; add a port: ${place}`
      : `no ${protocol.toUpperCase()} service has this address`,
  );
}

function portsAt(address: string, ports: readonly Port[]): readonly Port[] {
  return ports.filter((one) => frontendsOf(one).some((frontend) => frontend.address === address));
}

/** The answer to a ping of an address. Services have ports of TCP, UDP and SCTP only. */
function pingText(address: string, ports: readonly Port[], { name, traffic }: AnswerBasis["mode"]): string {
  const why = "a service has ports of TCP, UDP or SCTP, so a ping does not test it";
  if (portsAt(address, ports).length === 0) return `${why}; no service has this address`;
  const gets = traffic.by === "virtual-servers"
    ? "this node itself answers"
    : traffic.unusedPort === "rejected"
    ? "it is rejected, like an unused port"
    : "no rule matches it, so it follows the routes and usually gets no answer";
  return `${why} (in ${name} mode, ${gets}); ask for ${address.includes(":") ? `[${address}]` : address}:PORT`;
}

/** The ports with a name at an address of services; undefined if the text is not an address and a name. */
function withPortName(text: string, ports: readonly Port[]): readonly Destination[] | undefined {
  const { inner, bare = inner, port, protocol } = ADDRESS_AND_NAME.exec(text)?.groups ?? {};
  const address = bare === undefined ? undefined : canonicalAddress(bare);
  if (address === undefined) return undefined;
  const there = portsAt(address, ports);
  const found = there.filter((one) => isOf(one, protocol) && portNameOf(one) === port);
  if (found.length > 0) return found.map((one) => destinationAt(address, one));
  if (there.length === 0) throw noDestination(text, "no service has this address");
  const named = there.map((one) => `${portNameOf(one) || "unnamed"} (${one.port}/${one.protocol.toUpperCase()})`);
  throw noDestination(text, `${address} has port ${[...new Set(named)].join(", ")}, not ${port}`);
}

function portNameOf({ name }: Port): string {
  return name.slice(serviceKeyOf(name).length + 1);
}

function isOf(port: Port, protocol: string | undefined): boolean {
  return protocol === undefined || port.protocol === protocol.toLowerCase();
}

/** The ports of a service, and a node port of this node. */
function withName(text: string, ports: readonly Port[], basis: AnswerBasis): readonly Destination[] {
  let { name, port, protocol } = NAME.exec(text)?.groups ?? {};
  const digits = LIKE_IPV4.exec(text)?.groups?.address;
  if (digits !== undefined && canonicalAddress(digits) === undefined) {
    throw noDestination(text, `${digits} is not an IP address`);
  }
  if (name === undefined) throw noDestination(text, FORMS);
  const services = new Set(ports.map((one) => serviceKeyOf(one.name)));
  // `web/udp` is a namespace and a service only if there is such a service.
  const [, short, last] = /^([^/]+)\/(tcp|udp|sctp)$/i.exec(name) ?? [];
  if (short !== undefined && port === undefined && !services.has(name)) [name, protocol] = [short, last];
  const service = serviceName(name, services);
  const ofService = service === undefined
    ? []
    : ports.filter((one) => one.name === service || one.name.startsWith(`${service}:`));
  const found = ofService.filter((one) => isOf(one, protocol))
    .filter((one) => port === undefined || String(one.port) === port || one.name === `${service}:${port}`)
    .map((one) => destinationAt(one.clusterIP, one));
  if (name === basis.nodeName && port !== undefined && /^\d+$/.test(port)) {
    const served = FAMILIES.filter((family) => ports.some((one) => one.family === family));
    found.push(...served.map((family): Destination => ({
      family,
      address: basis.families[family].settings().nodeIP,
      port: Number(port),
      protocol: (protocol?.toLowerCase() ?? "tcp") as Protocol,
    })));
  }
  if (found.length > 0) return found;
  if (ofService.length > 0) {
    const there = new Set(ofService.map((one) => `${one.port}/${one.protocol.toUpperCase()}`));
    const missing = [port, protocol?.toUpperCase()].filter((part) => part !== undefined).join("/");
    throw noDestination(text, `${service} has port ${[...there].join(", ")}, not ${missing}`);
  }
  if (service !== undefined) {
    throw noDestination(text, `there is no service ${service}${suggestion(service, services)}`);
  }
  const meant = suggestion(name, [...services].map((known) => known.slice(known.indexOf("/") + 1)));
  throw noDestination(text, `${name} is neither a service nor this node (${basis.nodeName})${meant}`);
}

/**
 * `namespace/name` of the service that a name stands for; without a namespace, of the only service with this name.
 * @throws {QuestionError} if several services have it
 */
function serviceName(name: string, services: ReadonlySet<string>): string | undefined {
  if (name.includes("/")) return name;
  const [, service, namespace] = DNS_NAME.exec(name) ?? [];
  if (service !== undefined) return `${namespace}/${service}`;
  const namesakes = [...services].filter((known) => known.endsWith(`/${name}`)).toSorted();
  if (namesakes.length > 1) {
    const more = namesakes.length > MOST_NAMESAKES ? `, and ${namesakes.length - MOST_NAMESAKES} more` : "";
    throw new QuestionError(
      `there are several services ${name}: ${namesakes.slice(0, MOST_NAMESAKES).join(", ")}${more}; add the namespace`,
    );
  }
  return namesakes[0];
}

const FORMS = "use ADDRESS[:PORT], [ADDRESS]:PORT for IPv6, [NAMESPACE/]SERVICE[:PORT] or NODE:NODEPORT, " +
  "followed by /udp or /sctp unless it is TCP";

function noDestination(text: string, reason: string): QuestionError {
  return new QuestionError(`${JSON.stringify(text)} is not a destination: ${reason}`);
}
