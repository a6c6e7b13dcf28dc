/**
 * KPNG's state files cannot say session affinity (the field is a choice of messages, which its YAML reader has no form
 * for), and refuse fields that KPNG does not know. An annotation says it, which KPNG passes over.
 */
import type { ServiceMessage } from "../../kpng/messages/mod.ts";

const NOTE = "sluice/affinity-seconds";

/** The service with its affinity as an annotation. */
export function noteOfAffinity({ clientIP, annotations, ...message }: ServiceMessage): ServiceMessage {
  if (clientIP === undefined) return { annotations, ...message };
  return { ...message, annotations: { ...annotations, [NOTE]: String(clientIP.timeoutSeconds ?? 0) } };
}

/** The service with the affinity that its annotation says. */
export function affinityOfNote(message: ServiceMessage): ServiceMessage {
  const { [NOTE]: seconds, ...annotations } = message.annotations ?? {};
  if (seconds === undefined || !/^\d{1,6}$/.test(seconds)) return message;
  return { ...message, annotations, clientIP: { timeoutSeconds: Number(seconds) } };
}
