/** It is too early for a question: everything has to be read once first. */
export class NotReadyError extends Error {
  override readonly name = "NotReadyError";
}
