/** Creates ConfigMaps as dry runs. Forked and controlled by large-objects.ts. */
import { setTimeout as sleep } from 'node:timers/promises';

import { configMap } from '../../test/support/objects.ts';
import { createTransport } from '../../test/support/transport.ts';
import { answerCalls } from './child.ts';

interface Asked {
  readonly server: string;
  readonly ca: string;
  readonly token: string;
  readonly data: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly lanes: number;
  readonly milliseconds: number;
  /** Between two requests of a lane. */
  readonly pauseMs: number;
}

const functions = {
  create: async ({ server, ca, token, data, labels, lanes, milliseconds, pauseMs }: Asked) => {
    const { call, stop } = createTransport(server, ca);
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const path = '/api/v1/namespaces/shop/configmaps?dryRun=All';
    const body = JSON.stringify(configMap('any', data, { labels }));
    const until = performance.now() + milliseconds;
    const latencies: number[] = [];
    let stored = 0;
    const lane = async () => {
      while (performance.now() < until) {
        const began = performance.now();
        const { status } = await call({ method: 'POST', path, headers, body });
        latencies.push(performance.now() - began);
        if (status < 300) stored += 1;
        await sleep(pauseMs);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    await stop();
    return { latencies, stored };
  },
};
export type ConfigMapClient = typeof functions;

answerCalls(functions);
