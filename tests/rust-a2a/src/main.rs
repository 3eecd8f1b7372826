//! What a user of the A2A project's Rust client does with an agent behind the bridge. It prints the name of each
//! scenario that went well, and ends. Usage: rust-a2a URL BINDING

use std::time::Duration;

use a2a::{
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, Role, SendMessageConfiguration,
    SendMessageRequest, SendMessageResponse, StreamResponse, Task, TaskState,
};
use a2a_client::{A2AClient, A2AClientFactory, Transport, agent_card::AgentCardResolver};
use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;

type Client = A2AClient<Box<dyn Transport>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (url, binding) = args.next().zip(args.next()).context("usage: rust-a2a URL BINDING")?;
    let card = AgentCardResolver::new(None).resolve(&url).await?;
    ensure!(card.name == "Python agent", "{card:?}");
    println!("card");
    let factory = A2AClientFactory::builder().preferred_bindings(vec![binding]).build();
    let client = factory.create_from_card(&card).await?;
    send(&client).await?;
    println!("send");
    stream(&client).await?;
    println!("stream");
    question(&client).await?;
    println!("question");
    let canceled = cancel(&client).await?;
    println!("cancel");
    list(&client, canceled).await?;
    println!("list");
    Ok(())
}

fn request(message: Message, at_once: bool) -> SendMessageRequest {
    SendMessageRequest {
        message,
        configuration: Some(SendMessageConfiguration {
            accepted_output_modes: None,
            task_push_notification_config: None,
            history_length: None,
            return_immediately: Some(at_once),
        }),
        metadata: None,
        tenant: None,
    }
}

fn said(text: &str) -> Message {
    Message::new(Role::User, vec![Part::text(text)])
}

async fn ask(client: &Client, message: Message, at_once: bool) -> anyhow::Result<Task> {
    match client.send_message(&request(message, at_once)).await? {
        SendMessageResponse::Task(task) => Ok(task),
        SendMessageResponse::Message(message) => bail!("a message and no task: {message:?}"),
    }
}

fn results(task: &Task) -> Vec<String> {
    let artifacts = task.artifacts.iter().flatten();
    let parts = artifacts.flat_map(|artifact| &artifact.parts);
    parts.filter_map(|part| part.as_text().map(str::to_owned)).collect()
}

async fn send(client: &Client) -> anyhow::Result<()> {
    let task = ask(client, said("echo Grüezi"), false).await?;
    ensure!(task.status.state == TaskState::Completed && results(&task) == ["Grüezi"], "{task:?}");
    let get = GetTaskRequest { id: task.id.clone(), history_length: None, tenant: None };
    let again = client.get_task(&get).await?;
    ensure!(again == task, "{again:?} is not {task:?}");
    Ok(())
}

async fn stream(client: &Client) -> anyhow::Result<()> {
    let mut events = client.send_streaming_message(&request(said("echo live"), false)).await?;
    let (mut text, mut state) = (String::new(), TaskState::Unspecified);
    while let Some(event) = events.next().await {
        match event? {
            StreamResponse::Task(task) => {
                text.extend(results(&task));
                state = task.status.state;
            }
            StreamResponse::ArtifactUpdate(update) => {
                text.extend(update.artifact.parts.iter().filter_map(|part| part.as_text()));
            }
            StreamResponse::StatusUpdate(update) => state = update.status.state,
            StreamResponse::Message(message) => bail!("a message and no task: {message:?}"),
        }
    }
    ensure!(text == "live" && state == TaskState::Completed, "{text:?}, {state:?}");
    Ok(())
}

async fn question(client: &Client) -> anyhow::Result<()> {
    let task = ask(client, said("ask me"), false).await?;
    ensure!(task.status.state == TaskState::InputRequired, "{task:?}");
    let answer = Message {
        task_id: Some(task.id.clone()),
        context_id: Some(task.context_id.clone()),
        ..said("that")
    };
    let done = ask(client, answer, false).await?;
    ensure!(done.id == task.id && results(&done) == ["ask me | that"], "{done:?}");
    Ok(())
}

async fn cancel(client: &Client) -> anyhow::Result<Task> {
    let task = ask(client, said("slow"), true).await?;
    let get = GetTaskRequest { id: task.id.clone(), history_length: None, tenant: None };
    while client.get_task(&get).await?.status.state != TaskState::Working {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let cancel = CancelTaskRequest { id: task.id, metadata: None, tenant: None };
    let ended = client.cancel_task(&cancel).await?;
    ensure!(ended.status.state == TaskState::Canceled, "{ended:?}");
    ensure!(client.cancel_task(&cancel).await.is_err(), "a task that has ended was canceled");
    Ok(ended)
}

async fn list(client: &Client, canceled: Task) -> anyhow::Result<()> {
    let list = ListTasksRequest {
        context_id: Some(canceled.context_id),
        status: Some(TaskState::Canceled),
        page_size: Some(10),
        page_token: None,
        history_length: None,
        status_timestamp_after: None,
        include_artifacts: None,
        tenant: None,
    };
    let page = client.list_tasks(&list).await?;
    ensure!(page.tasks.len() == 1 && page.tasks[0].id == canceled.id, "{page:?}");
    Ok(())
}
