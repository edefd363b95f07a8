import { ExportResultCode } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace';

export interface ExportLog {
  readonly info: (fields: object, message: string) => void;
  readonly warn: (fields: object, message: string) => void;
}

/** Log at most once per interval: a collector may be down for a while, and spans arrive all the time. */
const TELL_AGAIN_MS = 60_000;

/**
 * Wraps `exporter`: logs how many spans it loses, at most once a minute, and logs when it works again.
 * @param now in milliseconds
 */
export function tellOfLosses(
  exporter: SpanExporter,
  log: ExportLog,
  now: () => number = () => performance.now(),
): SpanExporter {
  let lost = 0;
  let toldAt: number | undefined;
  const failed = (spans: number, err: Error | undefined) => {
    lost += spans;
    if (toldAt !== undefined && now() - toldAt < TELL_AGAIN_MS) return;
    toldAt = now();
    log.warn({ err, lost }, 'could not send traces: spans are lost, and nothing else is');
    lost = 0;
  };
  const succeeded = () => {
    if (toldAt === undefined) return;
    toldAt = undefined;
    log.info({ lost }, 'traces are sent again');
    lost = 0;
  };
  return {
    export: (spans, done) => {
      exporter.export(spans, (result) => {
        if (result.code === ExportResultCode.SUCCESS) succeeded();
        else failed(spans.length, result.error);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}
