"""The parts of Vertex AI v1 beside custom jobs: each answers 501, and says so."""

from __future__ import annotations

from stoker.api.not_served import not_served

router = not_served(
    "/v1/projects/{project}/locations/{location}",
    {
        name: f"{name} of Vertex AI are not served by this Stoker; customJobs are"
        for name in (
            *(
                "batchPredictionJobs",
                "customTargets",
                "datasets",
                "endpoints",
                "experiments",
                "hyperparameterTuningJobs",
            ),
            *("metadataStores", "models", "nasJobs", "persistentResources", "pipelineJobs", "schedules"),
            *("specialistPools", "tensorboards", "trainingPipelines"),
        )
    },
)
