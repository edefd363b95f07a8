import { pino, type DestinationStream, type Logger } from 'pino';

import { escapeControls } from '../json/printable.ts';

/** Names of fields that hold something to keep to oneself, on the top level and one below. */
const SECRETS: ReadonlySet<string> = new Set([
  'data',
  'stringData',
  'token',
  'privateKey',
  'authorization',
  'tls.key',
]);
const CENSORED = '[redacted]';

/**
 * Lines are written together, as many as come within this time or are so long together: a write for each would cost more than all
 * else that an admission review needs of the log. Whatever ends the process writes them first; only SIGKILL loses them.
 */
const FLUSH_MS = 100;
const FLUSH_BYTES = 32 * 1024;

/** One JSON line an event, on stdout unless a file is named. What a Secret holds never gets into it. */
export function createLog(level: string, identity: string, file?: string): Logger {
  return pino(
    {
      level,
      base: { replica: identity },
      timestamp: createTimestamp(Date.now),
      formatters: { level: (label) => ({ level: label }), log: withoutSecrets },
      serializers: { err: (error: Error) => withoutSecrets(pino.stdSerializers.err(error)) },
    },
    createDestination(file),
  );
}

/** Its `debug` is there only where somebody listens, so that nobody gathers what is not written. */
export function withDebugIfHeard(log: Logger): Pick<Logger, 'info' | 'warn' | 'error'> & {
  readonly debug: ((fields: object, message: string) => void) | undefined;
} {
  const debug = (fields: object, message: string) => {
    log.debug(fields, message);
  };
  return {
    info: log.info.bind(log),
    warn: log.warn.bind(log),
    error: log.error.bind(log),
    debug: log.isLevelEnabled('debug') ? debug : undefined,
  };
}

/** Lines are kept as bytes: of text the destination would count all that it holds again for each line. */
function createDestination(
  file: string | undefined,
): DestinationStream & Pick<ReturnType<typeof pino.destination>, 'flush'> {
  const bytes = pino.destination({
    dest: file ?? process.stdout.fd,
    sync: false,
    contentMode: 'buffer',
    minLength: FLUSH_BYTES,
    maxWrite: 2 * FLUSH_BYTES,
    periodicFlush: FLUSH_MS,
  });
  // Its types know of text alone, whatever its mode.
  const write = bytes.write.bind(bytes) as unknown as (line: Buffer) => boolean;
  return { write: (line) => write(harmless(line)), flush: bytes.flush.bind(bytes) };
}

/**
 * Names of users and objects may hold what JSON lets stand, and a terminal does not. Nearly every line is ASCII, which is seen by its
 * length and costs a quarter of looking for them.
 */
function harmless(line: string): Buffer {
  const bytes = Buffer.from(line);
  if (bytes.length === line.length && !bytes.includes(DELETE)) return bytes;
  return Buffer.from(escapeControls(line));
}

const DELETE = 0x7f;

/** RFC 3339 with milliseconds, as part of a line. All but the milliseconds is the same for many lines. */
export function createTimestamp(now: () => number): () => string {
  let second = NaN;
  let start = '';
  return () => {
    const time = now();
    if (Math.floor(time / 1_000) !== second) {
      second = Math.floor(time / 1_000);
      start = `,"time":"${new Date(second * 1_000).toISOString().slice(0, -4)}`;
    }
    return `${start}${String(time - second * 1_000).padStart(3, '0')}Z"`;
  };
}

/** The same object where there is nothing to hide, which pino's own `redact` would take longer to find out than to write the line. */
function withoutSecrets(fields: object): Record<string, unknown> {
  const all = fields as Record<string, unknown>; // of an object one may ask for any key
  let changed: Record<string, unknown> | undefined;
  for (const key of Object.keys(all)) {
    const value = all[key];
    const shown = SECRETS.has(key) ? CENSORED : isPlain(value) ? withoutSecretValues(value) : value;
    if (shown !== value) changed = { ...(changed ?? all), [key]: shown };
  }
  return changed ?? all;
}

function withoutSecretValues(fields: object): object {
  const secret = Object.keys(fields).filter((key) => SECRETS.has(key));
  return secret.length === 0
    ? fields
    : { ...fields, ...Object.fromEntries(secret.map((key) => [key, CENSORED])) };
}

/** Errors have a serializer of their own. */
const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Error);
