/** Records what the newest Kubernetes answers to the cases of admission policies in test/data, or to those with these names. Needs Go. */
import { recordPolicies } from '../test/support/native/record-policies.ts';

await recordPolicies(process.argv.slice(2));
