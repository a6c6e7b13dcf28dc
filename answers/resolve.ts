/** Destinations by name: a service, or a node port of this node. */
import { FAMILIES, type Family } from "../platform/mod.ts";
import { suggestion } from "../config/mod.ts";
import type { Protocol, ServicePort } from "../core/model/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { type Question, QuestionError, readFrom } from "./question.ts";

/** A name, `:` with a port's number or name, and `/` with a protocol: `default/web:http`, `node-a:53/udp`. */
const NAME = /^(?<name>[a-z0-9.-]+(?:\/[a-z0-9.-]+)?)(?::(?<port>[a-z0-9-]+))?(?:\/(?<protocol>tcp|udp|sctp))?$/i;
/** A service's DNS name: `web.default`, `web.default.svc`, `web.default.svc.cluster.local`. */
const DNS_NAME = /^([a-z0-9-]+)\.([a-z0-9-]+)(?:\.svc(?:\.[a-z0-9.-]+)?)?$/i;

/** A destination by name. */
interface NamedDestination {
  readonly name: string;
  /** A number or a port's name; undefined for every port. */
  readonly port: string | undefined;
  readonly protocol: Protocol | undefined;
}

/**
 * Finds the destinations that a name stands for: the cluster IPs and ports of a service (`default/web`, `web.default:80`),
 * or a node port of this node (`node-a:30080`), in each family. `from` is as in `readQuestion`; with an address, only its
 * family is used.
 * @throws {QuestionError} if nothing has this name; the message names near misses
 */
export function resolveDestination(text: string, from: string | undefined, basis: AnswerBasis): readonly Question[] {
  const named = readName(text);
  if (named === undefined) throw noDestination(text, "");
  const questions = [...serviceQuestions(named, basis), ...nodePortQuestions(named, basis)];
  if (questions.length === 0) throw noDestination(text, nearMiss(named, basis));
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

function readName(text: string): NamedDestination | undefined {
  const { name, port, protocol } = NAME.exec(text)?.groups ?? {};
  return name === undefined ? undefined : { name, port, protocol: protocol?.toLowerCase() as Protocol | undefined };
}

/** `namespace/name` of the service that a name stands for. */
function serviceName(name: string): string | undefined {
  if (name.includes("/")) return name;
  const [, service, namespace] = DNS_NAME.exec(name) ?? [];
  return service && `${namespace}/${service}`;
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
  const service = serviceName(name);
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

/** The reason why a name stands for nothing, and what it may have meant. */
function nearMiss({ name, port, protocol }: NamedDestination, basis: AnswerBasis): string {
  const service = serviceName(name);
  const ports = service === undefined ? [] : portsOfService(service, basis);
  if (ports.length > 0) {
    const there = new Set(ports.map((one) => `${one.port}/${one.protocol.toUpperCase()}`));
    const missing = [port, protocol?.toUpperCase()].filter((part) => part !== undefined).join("/");
    return `: ${service} has port ${[...there].join(", ")}, not ${missing}`;
  }
  const known = new Set(servicePorts(basis).map((one) => one.name.replace(/:.*/, "")));
  if (service !== undefined) return `: there is no service ${service}${suggestion(service, known)}`;
  return `: ${name} is neither a service nor this node (${basis.nodeName})`;
}

function noDestination(text: string, reason: string): QuestionError {
  const forms = "use ADDRESS:PORT, [ADDRESS]:PORT for IPv6, NAMESPACE/SERVICE[:PORT] or NODE:NODEPORT, " +
    "followed by /udp or /sctp unless it is TCP";
  return new QuestionError(`${JSON.stringify(text)} is not a destination${reason === "" ? `: ${forms}` : reason}`);
}
