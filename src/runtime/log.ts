import { pino, type DestinationStream, type LogFn, type Logger } from 'pino';

import { escapeControls } from '../json/printable.ts';
import { isOfOutage, isOfRequest } from '../kube/api-error.ts';

/** Names of fields with secret values, at the top level and one level below. */
const SECRETS: ReadonlySet<string> = new Set([
  'data',
  'stringData',
  'token',
  'privateKey',
  'authorization',
  'tls.key',
]);
const CENSORED = '[redacted]';
/** A write per line would dominate the cost of logging a review. Every exit flushes first; only SIGKILL loses lines. */
const FLUSH_MS = 100;
const FLUSH_BYTES = 32 * 1024;

export function createLog(level: string, identity: string, file?: string): Logger {
  return pino(
    {
      level,
      base: { replica: identity },
      timestamp: createTimestamp(Date.now),
      formatters: { level: (label) => ({ level: label }), log: withoutSecrets },
      serializers: { err: toFields },
      hooks: { logMethod: withoutRepetition },
    },
    createDestination(file),
  );
}

/** An outage of the API server is one line. What fails because of it is of interest only while debugging. */
function withoutRepetition(this: Logger, args: Parameters<LogFn>, method: LogFn, level: number): void {
  const [fields] = args as readonly unknown[];
  const isCovered = level > INFO && isOfOutage(fields instanceof Error ? fields : errorIn(fields));
  (isCovered ? this.debug : method).apply(this, args);
}

const INFO = pino.levels.values.info ?? NaN;

const errorIn = (fields: unknown): unknown =>
  typeof fields === 'object' && fields !== null && 'err' in fields ? fields.err : undefined;

function toFields(error: Error): object {
  const fields = withoutSecrets(serialise(error));
  if (isOfRequest(error)) delete fields.stack;
  return fields;
}

/** pino marks errors, which fails for a frozen one, and reads getters, which may throw. Handlers throw such errors. */
function serialise(error: Error): object {
  try {
    return pino.stdSerializers.err(error);
  } catch {
    const { name, message, stack } = error;
    return { type: name, message, stack };
  }
}

/** `debug` is undefined when the level is off, so that callers do not collect fields that are not written. */
export function withDebugIfEnabled(log: Logger): Pick<Logger, 'info' | 'warn' | 'error'> & {
  readonly debug: ((fields: object, message: string) => void) | undefined;
} {
  const debug = (fields: object, message: string) => log.debug(fields, message);
  return {
    info: log.info.bind(log),
    warn: log.warn.bind(log),
    error: log.error.bind(log),
    debug: log.isLevelEnabled('debug') ? debug : undefined,
  };
}

/** Buffers bytes: with text, the destination would measure its whole buffer again for each line. */
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
  // The types allow only strings, although this content mode takes bytes.
  const write = bytes.write.bind(bytes) as unknown as (line: Buffer) => boolean;
  return { write: (line) => write(withEscapes(line)), flush: bytes.flush.bind(bytes) };
}

/** Terminals interpret control characters that JSON allows. Fast path: comparing lengths shows that a line is ASCII. */
function withEscapes(line: string): Buffer {
  const bytes = Buffer.from(line);
  if (bytes.length === line.length && !bytes.includes(DELETE)) return bytes;
  return Buffer.from(escapeControls(line));
}

const DELETE = 0x7f;

/** RFC 3339 with milliseconds, as a fragment of a line. Consecutive lines share the cached part up to the second. */
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

/** Returns the same object if nothing is secret. pino's own `redact` costs more than writing the line. */
function withoutSecrets(fields: object): Record<string, unknown> {
  const all = fields as Record<string, unknown>; // any key of an object can be read
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

const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Error);
