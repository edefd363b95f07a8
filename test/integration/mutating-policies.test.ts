/** Recorded answers of kube-apiserver 1.37 about MutatingAdmissionPolicies. */
import { testRecorded } from '../support/native/recorded-suite.ts';
import { EXCEPTIONS } from './mutating-policies-exceptions.ts';

testRecorded(({ name }) => name.startsWith('mutating_'), EXCEPTIONS);
