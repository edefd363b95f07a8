import { pino, type Logger, type LoggerOptions } from 'pino';

/** Names of fields that hold something to keep to oneself, on the top level and one below. */
const SECRETS = ['data', 'stringData', 'token', 'privateKey', 'authorization', '["tls.key"]'];

/** One JSON line an event, on stdout unless a file is named. What a Secret holds never gets into it. */
export function createLog(level: string, identity: string, file?: string): Logger {
  const options: LoggerOptions = {
    level,
    base: { replica: identity },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: SECRETS.flatMap((name) => [name, name.startsWith('[') ? `*${name}` : `*.${name}`]),
      censor: '[redacted]',
    },
  };
  return file === undefined ? pino(options) : pino(options, pino.destination({ dest: file, sync: false }));
}
