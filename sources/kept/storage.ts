import { readUpTo } from "../../platform/mod.ts";

/** Random access to an open file. */
export interface Storage {
  /** Returns up to `length` bytes from `offset`; fewer at the end of the file. */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Writes all bytes at `offset`. */
  write(offset: number, bytes: Uint8Array): Promise<void>;
  /** Resolves when everything written is on the disk. */
  sync(): Promise<void>;
}

/** The storage of an open file. Needs no permission. Calls must not overlap: a read or write first sets the file's position. */
export function storageOf(file: Deno.FsFile): Storage {
  return {
    async read(offset, length) {
      await file.seek(offset, Deno.SeekMode.Start);
      return await readUpTo(file, length);
    },
    async write(offset, bytes) {
      await file.seek(offset, Deno.SeekMode.Start);
      let written = 0;
      while (written < bytes.length) written += await file.write(bytes.subarray(written));
    },
    sync: () => file.sync(),
  };
}
