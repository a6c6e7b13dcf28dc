/**
 * The maximum size of an object in an answer, in bytes, as in client-go. etcd limits an object to 1.5 MiB, in which JSON may write
 * six bytes for one (`\u003c`).
 */
const MOST_OBJECT_BYTES = 16 * 2 ** 20;

/** Limits the bytes of an answer from one object to the next, white space included: a faulty server may send them without an end. */
interface ObjectLimit {
  /** Counts bytes. Throws a SyntaxError above the limit. */
  add(bytes: number): void;
  /** An object has ended, and the next one begins. */
  ended(): void;
}

/** A limit that has counted nothing. */
export function createObjectLimit(): ObjectLimit {
  let bytes = 0;
  return {
    add(more) {
      bytes += more;
      if (bytes > MOST_OBJECT_BYTES) throw new SyntaxError(`an object of more than ${MOST_OBJECT_BYTES / 2 ** 20} MiB`);
    },
    ended() {
      bytes = 0;
    },
  };
}
