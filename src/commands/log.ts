import { pino, type Logger } from 'pino';

/** Names of fields that hold something to keep to oneself, on the top level and one below. */
const SECRETS = ['data', 'stringData', 'token', 'privateKey', 'authorization', '["tls.key"]'];

/** One JSON line an event, on stdout. What a Secret holds never gets into it. */
export function createLog(level: string, identity: string): Logger {
  return pino({
    level,
    base: { replica: identity },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: SECRETS.flatMap((name) => [name, name.startsWith('[') ? `*${name}` : `*.${name}`]),
      censor: '[redacted]',
    },
  });
}
