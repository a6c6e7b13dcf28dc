/**
 * KPNG's messages, and their conversion from and to Kubernetes objects.
 *
 * In: objects or messages. Out: messages or objects. May touch: nothing.
 */
export { createDocumentedState, type DescribedOperation, describeOperation } from "./describe.ts";
export * from "./object_messages.ts";

export * from "./messages.ts";
