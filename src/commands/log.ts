import { pino, type Logger } from 'pino';

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
 * Lines are written together, as many as come within this time or fill a page of memory: a write for each would cost as much as
 * all else that an admission review needs of the log. Whatever ends the process writes them first; only SIGKILL loses them.
 */
const FLUSH_MS = 100;
const PAGE_BYTES = 4_096;

/** One JSON line an event, on stdout unless a file is named. What a Secret holds never gets into it. */
export function createLog(level: string, identity: string, file?: string): Logger {
  return pino(
    {
      level,
      base: { replica: identity },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: withoutSecrets },
      serializers: { err: (error: Error) => withoutSecrets(pino.stdSerializers.err(error)) },
    },
    pino.destination({
      dest: file ?? process.stdout.fd,
      sync: false,
      minLength: PAGE_BYTES,
      periodicFlush: FLUSH_MS,
    }),
  );
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
