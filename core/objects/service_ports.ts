import { compact } from "../../platform/mod.ts";
import { readPortTarget } from "./details.ts";
import { isLabel, NAME_RULE } from "./names.ts";
import { internString } from "./intern.ts";
import { isWholeNumber, listOf, type Problems } from "./problems.ts";
import { readProtocol } from "./protocol.ts";
import { isAbsent, quote, type RawObject, rawObject } from "./raw.ts";
import type { ServicePortSpec } from "./service.ts";

/** The usable ports of a service. Of two with the same name, or number, and protocol the first one counts. */
export function readServicePorts(value: unknown, problems: Problems, inFull: boolean): readonly ServicePortSpec[] {
  const ports: ServicePortSpec[] = [];
  listOf(value, "spec.ports", problems).forEach((item, index) => {
    const problem = (what: string) => problems.add(`port ${index + 1} ${what}`);
    const port = readServicePort(rawObject(item), problem, inFull);
    if (port === undefined) return;
    const double = ports.find((other) =>
      other.protocol === port.protocol && (other.name === port.name || other.port === port.port)
    );
    if (double === undefined) ports.push(port);
    else {problem(
        `has the ${double.name === port.name ? "name" : "number"} and protocol of another one; it is left out`,
      );}
  });
  return compact(ports);
}

function readServicePort(
  raw: RawObject,
  problem: (what: string) => void,
  inFull: boolean,
): ServicePortSpec | undefined {
  const name = isAbsent(raw.name) ? "" : raw.name;
  if (name !== "" && !isLabel(name)) {
    problem(`has the name ${quote(name)}, which may only hold ${NAME_RULE}; it is left out`);
    return undefined;
  }
  const called = name === "" ? "" : `(${quote(name)}) `;
  const protocol = readProtocol(raw.protocol);
  if (protocol === undefined) {
    problem(`${called}has the protocol ${quote(raw.protocol)} instead of TCP, UDP or SCTP; it is left out`);
    return undefined;
  }
  if (isAbsent(raw.port)) {
    problem(`${called}has no port number; it is left out`);
    return undefined;
  }
  if (!isWholeNumber(raw.port, 1, 65535)) {
    problem(`${called}has the port number ${quote(raw.port)}, which is not between 1 and 65535; it is left out`);
    return undefined;
  }
  let nodePort = 0;
  if (isWholeNumber(raw.nodePort, 0, 65535)) nodePort = raw.nodePort;
  else if (!isAbsent(raw.nodePort)) {
    problem(
      `${called}has the nodePort ${quote(raw.nodePort)}, which is not between 0 and 65535; it is served without one`,
    );
  }
  const spec = { name: internString(name), protocol, port: raw.port, nodePort };
  return inFull ? { ...spec, target: readPortTarget(raw) } : spec;
}
