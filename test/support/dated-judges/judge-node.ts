/** Handshakes in memory, by the clock of this process. Prints `ok` or the reason for each case in the folder. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { nodeVerdict } from '../trust-verdicts.ts';

const [, , folder = ''] = process.argv;
const read = (name: string) => readFileSync(join(folder, name), 'utf8');
for (const [index, host] of read('hosts').trim().split(/\s+/).entries()) {
  const [chain, privateKey] = [read(`${index}.chain.pem`), read(`${index}.key.pem`)];
  console.log(await nodeVerdict({ chain, privateKey }, read(`${index}.bundle.pem`), host));
}
