/** Measures the CPU time of the leader's handshakes with endpoints. The servers are in another process. */
import { setTimeout as sleep } from 'node:timers/promises';

import { systemClock } from '../../src/kube/clock.ts';
import { askForLeaf } from '../../src/runtime/endpoints/handshake.ts';
import { createProber, servedBy } from '../../src/runtime/endpoints/prober.ts';
import { createServedCerts } from '../../src/runtime/endpoints/served-certs.ts';
import { firstAuthority, SERVER_NAME, serverOf } from '../../test/support/pki/fixtures.ts';
import { leafOf } from '../../test/support/trust-history.ts';
import { startChild } from './child.ts';
import { atMost, type Figure } from './figures.ts';
import type { Answer, Question } from './tls-server.ts';

const SERVICES = 30;
const PODS = 10;
const MINUTE_MS = 60_000;
/** Half of the default of `--serving-cert-reload-time`: stale servers are asked once a minute. */
const RELOAD_MS = MINUTE_MS;
/** Of one core. */
const SHARE = 0.01;

export async function measureProber(): Promise<readonly Figure[]> {
  const now = new Date();
  const { chain, keyPair } = await serverOf(await firstAuthority(now), now);
  const current = servedBy({ kind: 'leaf', leaf: leafOf(chain) }, SERVER_NAME);
  if (current.kind !== 'leaf') throw new Error('the server has no leaf');
  const servers = startChild<Question, Answer>('tls-server.ts');
  const stopping = new AbortController();
  try {
    const { port } = await servers.ask({ chain, privateKey: keyPair.privateKey }, 'started');
    let handshakes = 0;
    const served = createServedCerts(RELOAD_MS);
    const prober = createProber(
      {
        served,
        ask: askForLeaf,
        read: servedBy,
        onAnswer: () => (handshakes += 1),
        clock: systemClock,
      },
      stopping.signal,
    );
    const idle = await shareOfCore(MINUTE_MS / 4);
    const announce = (leaf: string) => {
      for (let service = 0; service < SERVICES; service += 1)
        prober.update(`shop-${service}/db`, {
          ...{ namespace: `shop-${service}`, name: 'db', uid: '', secretName: 'db-tls', leaf },
          serverName: SERVER_NAME,
          endpoints: Array.from({ length: PODS }, (_, pod) => ({
            ...{ pod: `db-${pod}`, address: `127.18.${service}.${pod + 1}`, port },
            ...{ portId: 'https', isTls: true },
          })),
        });
    };
    announce(current.leaf);
    while (served.counts().unknown > 0) await sleep(100);
    const counted = async (ms: number) => {
      const before = handshakes;
      const share = (await shareOfCore(ms)) - idle;
      return { share, handshakes: handshakes - before };
    };
    announce('renewed');
    const renewal = await counted(MINUTE_MS);
    const steady = await counted(MINUTE_MS);
    const percent = (share: number) => `${(share * 100).toFixed(2)} %`;
    const figure = (what: string, found: typeof renewal): Figure => ({
      what: `${what} (${found.handshakes} handshakes)`,
      measured: percent(found.share),
      target: atMost(found.share, SHARE, percent),
    });
    return [
      figure(
        `handshakes with ${SERVICES * PODS} endpoints of ${SERVICES} Services, share of a core: in the minute after all are renewed`,
        renewal,
      ),
      figure('  in the next minute, while no server reloads and each is asked once', steady),
      { what: '  without them', measured: percent(idle) },
    ];
  } finally {
    stopping.abort();
    await servers.stop();
  }
}

/** CPU time of this process. */
async function shareOfCore(ms: number): Promise<number> {
  const [before, startedAt] = [process.cpuUsage(), performance.now()];
  await sleep(ms);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / (performance.now() - startedAt);
}
