import type { ServicePortName } from "../../core/model/mod.ts";
import { countText, durationText, joinHostPort, timeOfDay } from "../../platform/mod.ts";
import type { Flow } from "./flow.ts";
import { type DropReason, dropReason, placeOf, shownSteps, stepText, type Trace } from "./trace.ts";

/** A connection to a service that was dropped or rejected. */
interface Drop extends DropReason, Pick<Flow, "atMs" | "protocol" | "client" | "frontend"> {
  readonly event: "drop";
  /** Undefined if no service has this destination. */
  readonly service: ServicePortName | undefined;
}

/** A connection in one line. */
export function flowLine(flow: Flow): string {
  const { event, atMs, service, protocol, client, frontend, endpoint, state, bytesSent, bytesReceived } = flow;
  const facts = [
    ...(state === "" ? [] : [state]),
    ...(bytesSent === undefined
      ? []
      : [`${countText(bytesSent)} bytes sent, ${countText(bytesReceived ?? 0)} received`]),
    ...(flow.durationMs === undefined || event === "begin" ? [] : [durationText(flow.durationMs)]),
  ];
  return `${timeOfDay(atMs)}  ${event.padEnd(6)}  ${client} → ${frontend}/${protocol} (${service}) → ${endpoint}  ${
    facts.join("  ")
  }`.trimEnd();
}

/** A drop in one line. */
export function dropLine({ atMs, client, frontend, protocol, service, reason, place, owner, rule }: Drop): string {
  const at = owner === "other" ? `${place}: ${rule}` : place;
  return `${timeOfDay(atMs)}  drop    ${client} → ${frontend}/${protocol}${
    service === undefined ? "" : ` (${service})`
  }  ${reason}  [${at}]`;
}

/** The drop that a trace ends with. */
export function dropOf(trace: Trace, atMs: number, service: ServicePortName | undefined): Drop {
  const { first } = trace;
  return {
    event: "drop",
    atMs,
    service,
    protocol: first.protocol,
    client: joinHostPort(first.source, first.sourcePort),
    frontend: joinHostPort(first.destination, first.destinationPort),
    ...dropReason(trace),
  };
}

/** The path of a packet: a line for the packet, one for each rule, and one for its end. */
export function pathLines(trace: Trace, service: ServicePortName | undefined): readonly string[] {
  const { first, last, isDropped } = trace;
  const steps = shownSteps(trace);
  const width = Math.max(0, ...steps.map((step) => placeOf(step).length));
  const rows = steps.map((step, i) => {
    const next = steps.slice(i + 1).find(({ packet }) => packet !== step.packet)?.packet;
    return `  ${placeOf(step).padEnd(width)}  ${stepText(step, service, next)}`;
  });
  const from = first.inInterface === "" ? "sent by this node" : `arrived at ${first.inInterface}`;
  const to = joinHostPort(last.destination, last.destinationPort);
  const end = isDropped
    ? `It ended here: ${dropReason(trace).reason}.`
    : last.outInterface === ""
    ? `No rule dropped it; its destination is ${to}, on this node.`
    : `No rule dropped it; it left at ${last.outInterface} for ${to}.`;
  return [
    `${joinHostPort(first.source, first.sourcePort)} → ${
      joinHostPort(first.destination, first.destinationPort)
    }/${first.protocol}, ${from}`,
    ...rows,
    end,
  ];
}
