/** The proxy cannot answer yet: its caches have not synced. */
export class NotReadyError extends Error {
  override readonly name = "NotReadyError";
}
