import { ExportResultCode } from '@opentelemetry/core';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import { expect, test, vi } from 'vitest';

import type { Log } from '../log.ts';
import { logLosses } from './export-losses.ts';

function start() {
  let code = ExportResultCode.FAILED;
  let now = 1_000_000;
  const warn = vi.fn<Log['warn']>();
  const info = vi.fn<Log['info']>();
  const exporter: SpanExporter = {
    export: (_spans, done) => {
      done(code === ExportResultCode.FAILED ? { code, error: new Error('refused') } : { code });
    },
    shutdown: () => Promise.resolve(),
  };
  const watched = logLosses(exporter, { warn, info }, () => now);
  const send = (spans: number) => {
    const codes: number[] = [];
    // `logLosses` reads only the number of spans.
    watched.export(new Array<ReadableSpan>(spans), (result) => codes.push(result.code));
    return codes;
  };
  return {
    ...{ warn, info, send },
    succeed: () => (code = ExportResultCode.SUCCESS),
    wait: (ms: number) => (now += ms),
  };
}

test('an unavailable collector is logged once per minute, with the number of lost spans', () => {
  const { warn, send, wait } = start();
  expect(send(2)).toEqual([ExportResultCode.FAILED]);
  send(3);
  wait(59_000);
  send(4);
  expect(warn.mock.calls.map(([fields]) => fields)).toMatchObject([{ lost: 2 }]);
  wait(1_000);
  send(5);
  expect(warn.mock.calls.map(([fields]) => fields)).toMatchObject([{ lost: 2 }, { lost: 12 }]);
});

test('the recovery of the collector is logged once', () => {
  const { warn, info, send, succeed } = start();
  send(1);
  send(1);
  succeed();
  expect(send(1)).toEqual([ExportResultCode.SUCCESS]);
  send(1);
  expect(warn).toHaveBeenCalledTimes(1);
  expect(info.mock.calls).toEqual([[{ lost: 1 }, 'traces are sent again']]);
});
