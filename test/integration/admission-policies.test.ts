/** Recorded answers of kube-apiserver 1.37 about admission policies, except those about mutations only. */
import { testRecorded } from '../support/native/recorded-suite.ts';
import { EXCEPTIONS } from './admission-policies-exceptions.ts';

testRecorded(({ name }) => !name.startsWith('mutating_'), EXCEPTIONS);
