/** Questions about a connection: their destinations by address or by name. */
import type { AnswerBasis } from "./answers.ts";
import { suggestion } from "../config/mod.ts";
import type { Protocol, ServicePort } from "../core/model/mod.ts";
import { canonicalAddress, FAMILIES, type Family, familyOf, splitHostPort } from "../platform/mod.ts";

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
    throw new QuestionError(
      `${
        JSON.stringify(destination)
      } is not a destination: use ADDRESS:PORT, or [ADDRESS]:PORT for IPv6, followed by /udp ` +
        `or /sctp unless it is TCP`,
    );
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
/** A service's DNS name: `web.default`, `web.default.svc`, `web.default.svc.cluster.local`. */
const DNS_NAME = /^([a-z0-9-]+)\.([a-z0-9-]+)(?:\.svc(?:\.[a-z0-9.-]+)?)?$/i;

/** The most namesakes that a message lists. */
const MOST_NAMESAKES = 8;

/** A destination without an address and a port. */
interface NamedDestination {
  /** The name, or the canonical address. */
  readonly name: string;
  /** A number or a port's name; undefined for every port. */
  readonly port: string | undefined;
  readonly protocol: Protocol | undefined;
}

/**
 * Finds the destinations that a name stands for: the cluster IPs and ports of a service (`default/web`, `web.default:80`, or
 * `web` if only one namespace has it), the ports at an address, or a node port of this node (`node-a:30080`), in each
 * family. `from` is as in `readQuestion`; with an address, only its family is used.
 * @throws {QuestionError} if nothing has this name; the message names near misses
 */
export function resolveDestination(text: string, from: string | undefined, basis: AnswerBasis): readonly Question[] {
  const address = readAddress(text);
  const named = address ?? readName(text, basis);
  if (named === undefined) throw noDestination(text, "");
  const questions = address !== undefined
    ? addressQuestions(address, basis)
    : [...serviceQuestions(named, basis), ...nodePortQuestions(named, basis)];
  if (questions.length === 0) {
    throw noDestination(text, address !== undefined ? missingAddress(address) : nearMiss(named, basis));
  }
  const usable = questions.flatMap((question) => {
    try {
      return [{ ...question, from: readFrom(from, question.family) }];
    } catch (error) {
      if (questions.length > 1 && error instanceof QuestionError) return [];
      throw error;
    }
  });
  // An address of neither family, or a malformed one.
  if (usable.length === 0) readFrom(from, questions[0]!.family);
  return usable;
}

function readAddress(text: string): NamedDestination | undefined {
  const { inner, bare = inner, protocol } = ADDRESS.exec(text)?.groups ?? {};
  const name = bare === undefined ? undefined : canonicalAddress(bare);
  return name === undefined ? undefined : { name, port: undefined, protocol: protocolOf(protocol) };
}

function readName(text: string, basis: AnswerBasis): NamedDestination | undefined {
  const { name, port, protocol } = NAME.exec(text)?.groups ?? {};
  if (name === undefined) return undefined;
  // `web/udp` is a namespace and a service only if there is such a service.
  const [, short, last] = /^([^/]+)\/(tcp|udp|sctp)$/i.exec(name) ?? [];
  return short !== undefined && port === undefined && !servicesOf(basis).has(name)
    ? { name: short, port, protocol: protocolOf(last) }
    : { name, port, protocol: protocolOf(protocol) };
}

function protocolOf(text: string | undefined): Protocol | undefined {
  return text?.toLowerCase() as Protocol | undefined;
}

/**
 * `namespace/name` of the service that a name stands for; without a namespace, of the only service with this name.
 * @throws {QuestionError} if several services have it
 */
function serviceName(name: string, basis: AnswerBasis): string | undefined {
  if (name.includes("/")) return name;
  const [, service, namespace] = DNS_NAME.exec(name) ?? [];
  if (service !== undefined) return `${namespace}/${service}`;
  const namesakes = [...servicesOf(basis)].filter((known) => known.endsWith(`/${name}`)).toSorted();
  if (namesakes.length > 1) {
    const more = namesakes.length > MOST_NAMESAKES ? `, and ${namesakes.length - MOST_NAMESAKES} more` : "";
    throw new QuestionError(
      `there are several services ${name}: ${namesakes.slice(0, MOST_NAMESAKES).join(", ")}${more}; add the namespace`,
    );
  }
  return namesakes[0];
}

/** `namespace/name` of every service. */
function servicesOf(basis: AnswerBasis): ReadonlySet<string> {
  return new Set(servicePorts(basis).map(({ name }) => name.replace(/:.*/, "")));
}

/** Every port at an address of services. */
function addressQuestions({ name: address, protocol }: NamedDestination, basis: AnswerBasis): readonly Question[] {
  return servicePorts(basis)
    .filter((one) => [one.clusterIP, ...one.externalIPs, ...one.loadBalancerIPs].includes(address))
    .filter((one) => protocol === undefined || one.protocol === protocol)
    .map(({ family, port, protocol }) => ({ family, address, port, protocol, from: undefined }));
}

function missingAddress({ name: address, protocol }: NamedDestination): string {
  if (protocol !== undefined) return `: no ${protocol.toUpperCase()} service has this address`;
  return `: no service has this address; add a port: ${address.includes(":") ? `[${address}]` : address}:PORT`;
}

function servicePorts(basis: AnswerBasis): readonly (ServicePort & { readonly family: Family })[] {
  return FAMILIES.flatMap((family) =>
    [...basis.families[family].planner.ports()].map(({ planned, wanted }) => ({ ...planned ?? wanted, family }))
  );
}

function portsOfService(name: string, basis: AnswerBasis): ReturnType<typeof servicePorts> {
  return servicePorts(basis).filter((port) => port.name === name || port.name.startsWith(`${name}:`));
}

function serviceQuestions({ name, port, protocol }: NamedDestination, basis: AnswerBasis): readonly Question[] {
  const service = serviceName(name, basis);
  if (service === undefined) return [];
  return portsOfService(service, basis)
    .filter((one) => protocol === undefined || one.protocol === protocol)
    .filter((one) => port === undefined || String(one.port) === port || one.name === `${service}:${port}`)
    .map((one) => ({
      family: one.family,
      address: one.clusterIP,
      port: one.port,
      protocol: one.protocol,
      from: undefined,
    }));
}

function nodePortQuestions(
  { name, port, protocol = "tcp" }: NamedDestination,
  basis: AnswerBasis,
): readonly Question[] {
  if (name !== basis.nodeName || port === undefined || !/^\d+$/.test(port)) return [];
  return FAMILIES.filter((family) => servicePorts(basis).some((one) => one.family === family)).map((family) => ({
    family,
    address: basis.families[family].settings().nodeIP,
    port: Number(port),
    protocol,
    from: undefined,
  }));
}

/** The reason why a name was not found, with similar names. */
function nearMiss({ name, port, protocol }: NamedDestination, basis: AnswerBasis): string {
  const service = serviceName(name, basis);
  const ports = service === undefined ? [] : portsOfService(service, basis);
  if (ports.length > 0) {
    const there = new Set(ports.map((one) => `${one.port}/${one.protocol.toUpperCase()}`));
    const missing = [port, protocol?.toUpperCase()].filter((part) => part !== undefined).join("/");
    return `: ${service} has port ${[...there].join(", ")}, not ${missing}`;
  }
  if (service !== undefined) return `: there is no service ${service}${suggestion(service, servicesOf(basis))}`;
  const meant = suggestion(name, [...servicesOf(basis)].map((known) => known.slice(known.indexOf("/") + 1)));
  return `: ${name} is neither a service nor this node (${basis.nodeName})${meant}`;
}

function noDestination(text: string, reason: string): QuestionError {
  const forms = "use ADDRESS[:PORT], [ADDRESS]:PORT for IPv6, [NAMESPACE/]SERVICE[:PORT] or NODE:NODEPORT, " +
    "followed by /udp or /sctp unless it is TCP";
  return new QuestionError(`${JSON.stringify(text)} is not a destination${reason === "" ? `: ${forms}` : reason}`);
}
