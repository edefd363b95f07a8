/** `gatehouse doctor`: finds what commonly breaks, as the user of the kubeconfig, and says what to do about it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import type { DoctorFlags } from './command.ts';
import { gather } from './gather.ts';
import { judgeAll } from './judge.ts';
import { formatFindings } from './report.ts';
import { readManifests } from '../../sandbox/manifests.ts';
import { sentenceOf } from '../../../json/error-message.ts';
import { print, wantsColours } from '../../terminal/output.ts';
import { connectToCluster } from '../../user-cluster.ts';

const BASE = join(import.meta.dirname, '..', '..', '..', '..', 'deploy', 'base');

/** @returns the exit code: 0 no problems, 1 some, or no cluster to look at */
export async function doctor({ output, ...flags }: DoctorFlags): Promise<0 | 1> {
  try {
    const cluster = await connectToCluster(flags, 'doctor');
    try {
      const manifests = existsSync(BASE) ? readManifests(BASE) : [];
      const findings = judgeAll(await gather(cluster, { ...flags, manifests }));
      await print(formatFindings(findings, output, wantsColours()));
      return findings.some(({ severity }) => severity === 'problem') ? 1 : 0;
    } finally {
      await cluster.close();
    }
  } catch (error) {
    console.error(`error: ${sentenceOf(error)}`);
    return 1;
  }
}
