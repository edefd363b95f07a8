/** Records what the newest and the oldest supported Kubernetes answer to the expressions in test/data. Needs Go. */
import { buildOracle, record } from '../test/support/cel/record.ts';

await record(await buildOracle('newest'), await buildOracle('oldest'));
