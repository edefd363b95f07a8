/**
 * Twenty times what etcd can store (1.5 MiB), which leaves room for JSON's escapes and for managedFields.
 * A longer line is no event, and collecting it would end in a process that is out of memory.
 */
export const MAX_LINE_BYTES = 32 * 1024 * 1024;

const NEWLINE = 0x0a;

/**
 * The lines of a byte stream, without their ends; empty lines and an unfinished last one are left out.
 * Lines are cut as bytes and decoded as a whole, so a chunk may end in the middle of a character.
 * @throws when a line is longer than `maxBytes`
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes = MAX_LINE_BYTES,
): AsyncGenerator<string, void, undefined> {
  let parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const line = Buffer.concat([...parts, chunk.subarray(start, end)]).toString('utf8');
      parts = [];
      length = 0;
      start = end + 1;
      if (line.trim() !== '') yield line;
    }
    if (start < chunk.length) {
      parts.push(chunk.subarray(start));
      length += chunk.length - start;
    }
    if (length > maxBytes) throw new Error(`a line is longer than ${maxBytes} bytes`);
  }
}
