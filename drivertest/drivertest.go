// Package drivertest is the conformance suite of the driver contract: what
// every store for holdfast must do, and a store may be trusted after. A store's
// own test calls Run with a way to start it.
package drivertest

import (
	"testing"
	"time"

	"github.com/holdfastlock/holdfast/driver"
)

// Backend is the data of one store under test, and the ways to disturb it.
type Backend struct {
	// Open returns a new handle onto the same data each time it is called, as
	// another process would have. The backend closes it, by t.Cleanup.
	Open func(t *testing.T) driver.Store
	// Advance moves the store's clock forward. Where it is nil the suite uses
	// short TTLs and waits in real time.
	Advance func(d time.Duration)
	// Restart ends the store in an orderly way and starts it again with the
	// data that it keeps. Handles opened before are not used afterwards. Nil
	// where there is nothing to restart: the part is then logged and left out.
	Restart func(t *testing.T)
	// Wipe loses all data. The handles stay in use. Nil where that is not
	// possible: the part is then logged and left out.
	Wipe func(t *testing.T)
}

// Run runs the suite, a subtest for each thing that must be true. It calls
// start once in each of them, for a backend without locks; backends may share a
// server if each has a place of its own there. The subtests run one after
// another. What a store does not claim, or its backend can't do, is logged.
func Run(t *testing.T, start func(t *testing.T) Backend) {
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			backend := start(t)
			part.check(&trial{T: t, Backend: backend, a: backend.Open(t), b: backend.Open(t)})
		})
	}
}

var parts = []struct {
	name  string
	check func(t *trial)
}{
	{"OneOfManyIsGranted", oneOfManyIsGranted},
	{"HoldersComeOneAfterAnother", holdersComeOneAfterAnother},
	{"ARefusalSaysWhoHoldsIt", aRefusalSaysWhoHoldsIt},
	{"AcquireIsIdempotentByToken", acquireIsIdempotentByToken},
	{"AcquireAgainNeverShortens", acquireAgainNeverShortens},

	{"ReleaseComparesTheToken", releaseComparesTheToken},
	{"ALateReleaseLeavesTheSuccessorAlone", aLateReleaseLeavesTheSuccessorAlone},
	{"ATombstoneRefusesItsTokenOnly", aTombstoneRefusesItsTokenOnly},
	{"ATombstoneEnds", aTombstoneEnds},

	{"ExtendComparesTheToken", extendComparesTheToken},
	{"ExtendLengthens", extendLengthens},
	{"ExtendNeverShortens", extendNeverShortens},
	{"ManyLeasesAreExtendedInOneCall", manyLeasesAreExtendedInOneCall},
	{"AnExtendOfNothingIsNothing", anExtendOfNothingIsNothing},

	{"ALeaseEndsByTheStoresClock", aLeaseEndsByTheStoresClock},
	{"AnExtendedLeaseEndsLater", anExtendedLeaseEndsLater},
	{"AnEndedLeaseIsNotRevived", anEndedLeaseIsNotRevived},

	{"FencesIncrease", fencesIncrease},
	{"AGrantReservesAsManyFencesAsItIsAskedFor", aGrantReservesAsManyFencesAsItIsAskedFor},
	{"FencesIncreaseAcrossExpiry", fencesIncreaseAcrossExpiry},
	{"FencesIncreaseAcrossRestart", fencesIncreaseAcrossRestart},
	{"FencesIncreaseAcrossAWipe", fencesIncreaseAcrossAWipe},
	{"AWipedLeaseIsGone", aWipedLeaseIsGone},
	{"AGrantWithoutFenceExcludesAsWell", aGrantWithoutFenceExcludesAsWell},

	{"InspectShowsWhatIs", inspectShowsWhatIs},
	{"AgeCountsFromTheGrant", ageCountsFromTheGrant},
	{"ListShowsWhatIsHeld", listShowsWhatIsHeld},
	{"ListMatchesPatterns", listMatchesPatterns},

	{"AReleaseBeforeSubscribeIsSignalled", aReleaseBeforeSubscribeIsSignalled},
	{"EachReleaseIsSignalled", eachReleaseIsSignalled},
	{"WaitersNeedNoTimer", waitersNeedNoTimer},
	{"StopEndsOneSubscriptionOnly", stopEndsOneSubscriptionOnly},
	{"StopLeavesNothing", stopLeavesNothing},

	{"NamesAreKeptApart", namesAreKeptApart},
	{"BadNamesAreRefused", badNamesAreRefused},
	{"AnEndedContextDoesNothing", anEndedContextDoesNothing},

	{"SharedHoldersAreCounted", sharedHoldersAreCounted},
	{"SharedAndExclusiveExcludeEachOther", sharedAndExclusiveExcludeEachOther},
	{"ASharedHolderEndsAlone", aSharedHolderEndsAlone},

	{"ARaisedFenceIsTheGrants", forRaisers(aRaisedFenceIsTheGrants)},
	{"ARaisedFenceIsKeptAcrossExpiry", forRaisers(aRaisedFenceIsKeptAcrossExpiry)},
	{"AFenceIsNeverLowered", forRaisers(aFenceIsNeverLowered)},
	{"RaiseComparesTheToken", forRaisers(raiseComparesTheToken)},
	{"RaiseRefusesWhatAcquireRefuses", forRaisers(raiseRefusesWhatAcquireRefuses)},

	{"WaitersAreServedInTheirOrder", forQueues(waitersAreServedInTheirOrder)},
	{"WaitersNeedNoClock", forQueues(waitersNeedNoClock)},
	{"EnqueueIsIdempotent", forQueues(enqueueIsIdempotent)},
	{"EnqueueRefusesWhatAcquireRefuses", forQueues(enqueueRefusesWhatAcquireRefuses)},
	{"AnInboxEnds", forQueues(anInboxEnds)},
	{"APlaceIsKept", forQueues(aPlaceIsKept)},
	{"APlaceEnds", forQueues(aPlaceEnds)},
	{"AFreeNameIsHandedOnByWhoeverAsks", forQueues(aFreeNameIsHandedOnByWhoeverAsks)},
	{"TheFirstWaiterTakesAFreeName", forQueues(theFirstWaiterTakesAFreeName)},
	{"AFirstTryMayGoBefore", forQueues(aFirstTryMayGoBefore)},
	{"AHandOffIsClaimedByAsking", forQueues(aHandOffIsClaimedByAsking)},
	{"AClaimWithoutFenceHasNone", forQueues(aClaimWithoutFenceHasNone)},
	{"AHandOffThatNobodyClaimsEnds", forQueues(aHandOffThatNobodyClaimsEnds)},
	{"DeadWaitersArePassedOver", forQueues(deadWaitersArePassedOver)},
	{"AQueueOfTheDeadFreesTheName", forQueues(aQueueOfTheDeadFreesTheName)},
	{"AReleaseGivesUpThePlace", forQueues(aReleaseGivesUpThePlace)},
	{"AWithdrawnWaiterLosesItsPlace", forQueues(aWithdrawnWaiterLosesItsPlace)},
	{"AReleaseThatOwnsNothingFreesNobody", forQueues(aReleaseThatOwnsNothingFreesNobody)},
	{"TheNameIsPassedOnIfNobodyWaits", forQueues(theNameIsPassedOnIfNobodyWaits)},
	{"TheNameIsHandedOnIfOthersWait", forQueues(theNameIsHandedOnIfOthersWait)},
	{"TheNewTokenIsServedIfTheOldOneIsGone", forQueues(theNewTokenIsServedIfTheOldOneIsGone)},
	{"AWithdrawnTokenReleasesThePreviousOne", forQueues(aWithdrawnTokenReleasesThePreviousOne)},
	{"WithoutAPreviousTokenThereIsNoAnswer", forQueues(withoutAPreviousTokenThereIsNoAnswer)},

	{"ASlotRunsOnce", forSlots(aSlotRunsOnce)},
	{"OneOfManyBegins", forSlots(oneOfManyBegins)},
	{"BeginIsIdempotentByToken", forSlots(beginIsIdempotentByToken)},
	{"ATokenGrantedAgainIsAnotherRunner", forSlots(aTokenGrantedAgainIsAnotherRunner)},
	{"FinishIsIdempotentByToken", forSlots(finishIsIdempotentByToken)},
	{"ACrashedRunIsTakenOver", forSlots(aCrashedRunIsTakenOver)},
	{"AZombieCannotFinish", forSlots(aZombieCannotFinish)},
	{"BeginNeedsTheLease", forSlots(beginNeedsTheLease)},
	{"AttemptsAreLimited", forSlots(attemptsAreLimited)},
	{"AFailedRunIsRetriedIfAsked", forSlots(aFailedRunIsRetriedIfAsked)},
	{"ALateBeginIsRefused", forSlots(aLateBeginIsRefused)},
	{"RunsAreListedLastFirst", forSlots(runsAreListedLastFirst)},
	{"TheListIsBounded", forSlots(theListIsBounded)},
	{"ADoneSlotIsKeptAWhile", forSlots(aDoneSlotIsKeptAWhile)},
	{"SlotsSurviveARestart", forSlots(slotsSurviveARestart)},
	{"SlotsAreKeptApart", forSlots(slotsAreKeptApart)},
	{"BadSlotsAreRefused", forSlots(badSlotsAreRefused)},
	{"AnEndedContextBeginsNothing", forSlots(anEndedContextBeginsNothing)},
}
