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
      const bytes = new Uint8Array(length);
      let filled = 0;
      while (filled < length) {
        const count = await file.read(bytes.subarray(filled));
        if (count === null) break;
        filled += count;
      }
      return bytes.subarray(0, filled);
    },
    async write(offset, bytes) {
      await file.seek(offset, Deno.SeekMode.Start);
      let written = 0;
      while (written < bytes.length) written += await file.write(bytes.subarray(written));
    },
    sync: () => file.sync(),
  };
}
