/**
 * KPNG's state files cannot express session affinity (the field is a choice of messages, which its YAML reader does not
 * support) and refuse unknown fields. An annotation, which KPNG passes on, carries it instead.
 */
import type { ServiceMessage } from "./messages.ts";

const ANNOTATION = "sluice/affinity-seconds";

/** Moves a service's affinity into an annotation. */
export function annotateAffinity({ clientIP, annotations, ...message }: ServiceMessage): ServiceMessage {
  if (clientIP === undefined) return { annotations, ...message };
  return { ...message, annotations: { ...annotations, [ANNOTATION]: String(clientIP.timeoutSeconds ?? 0) } };
}

/** Restores a service's affinity from its annotation; an affinity in the message itself takes precedence. */
export function readAffinityAnnotation(message: ServiceMessage): ServiceMessage {
  if (message.clientIP !== undefined) return message;
  const { [ANNOTATION]: seconds, ...annotations } = message.annotations ?? {};
  if (seconds === undefined || !/^\d{1,6}$/.test(seconds)) return message;
  return { ...message, annotations, clientIP: { timeoutSeconds: Number(seconds) } };
}
